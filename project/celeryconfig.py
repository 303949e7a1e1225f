"""Celery's settings."""

from typing import Any

from django.conf import settings

from inference.routing import CONTROL_QUEUE

broker_url = settings.REDIS_URL
broker_transport_options = {"global_keyprefix": settings.BROKER_PREFIX}
broker_connection_retry_on_startup = True
broker_connection_max_retries = None  # a worker outlives any outage of Redis: its jobs are on record
task_ignore_result = True  # results are rows
task_acks_late = True
task_default_queue = CONTROL_QUEUE
task_create_missing_queues = True
task_serializer = "json"
accept_content = ["json"]
worker_prefetch_multiplier = 1
worker_hijack_root_logger = False
worker_send_task_events = True
# Leases outlive a lost connection to Redis: what runs goes on, and is acknowledged over the next one.
worker_cancel_long_running_tasks_on_connection_loss = False
enable_utc = True
timezone = "UTC"

beat_schedule_filename = str(settings.STATE_DIR / "beat-schedule")


def _every(seconds: float, task: str) -> dict[str, Any]:
    # A run that waited for longer than its interval has a successor in the queue, and is dropped.
    return {"task": task, "schedule": seconds, "options": {"expires": seconds}}


beat_schedule = {
    # Often enough that a dead worker's jobs run again within seconds of their lease's end.
    "reap": _every(min(2.0, settings.LEASE_SECONDS / 4), "inference.reap"),
    "expire": _every(2.0, "inference.expire"),
    "reconcile": _every(settings.RECONCILE_SECONDS, "inference.reconcile"),
    "prune_workers": _every(settings.LEASE_SECONDS, "inference.prune_workers"),
}
