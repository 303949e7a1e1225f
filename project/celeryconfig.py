"""Celery's settings."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery import schedules
from django.conf import settings

from inference.routing import CONTROL_QUEUE, ONCE_HEADER

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

beat_scheduler = "project.beat:Scheduler"


def _every(seconds: float, task: str) -> dict[str, Any]:
    """Return an entry that waits in the queue once at most: where no control worker runs, they do not pile up.

    Nothing here asks what time it is. A clock that jumps, or differs from another process's, would else stop all
    maintenance: with a message that "expires" it did.
    """
    schedule = schedules.schedule(seconds, nowfun=_steady_now)
    return {"task": task, "schedule": schedule, "options": {"headers": {ONCE_HEADER: True}}}


def _steady_now() -> datetime:
    return _STARTED_AT + timedelta(seconds=time.monotonic() - _STARTED)


_STARTED_AT: Final = datetime.now(UTC)
_STARTED: Final = time.monotonic()

beat_schedule = {
    # Often enough that a dead worker's jobs run again within seconds of their lease's end.
    "reap": _every(min(2.0, settings.LEASE_SECONDS / 4), "inference.reap"),
    "expire": _every(2.0, "inference.expire"),
    # A queue whose engines run it empty from the low watermark within this waits for it.
    "feed": _every(1.0, "inference.feed"),
    "count_spending": _every(5.0, "inference.count_spending"),
    "reconcile": _every(settings.RECONCILE_SECONDS, "inference.reconcile"),
    "prune_bodies": _every(3600.0, "inference.prune_bodies"),
    "prune_workers": _every(settings.LEASE_SECONDS, "inference.prune_workers"),
}
