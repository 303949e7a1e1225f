"""The Celery worker side: one process per device group, each owning one engine."""
