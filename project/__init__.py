"""Settings and entry points. Importing it makes the Celery app the default one, as Celery's Django guide asks."""

from project.celery import app as celery_app

__all__ = ["celery_app"]
