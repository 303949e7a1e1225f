"""Celery's settings."""

from django.conf import settings

from inference.routing import CONTROL_QUEUE

broker_url = settings.REDIS_URL
broker_connection_retry_on_startup = True
task_ignore_result = True  # results are rows
task_acks_late = True
task_default_queue = CONTROL_QUEUE
task_create_missing_queues = True
task_serializer = "json"
accept_content = ["json"]
worker_prefetch_multiplier = 1
worker_hijack_root_logger = False
worker_send_task_events = True
enable_utc = True
timezone = "UTC"
