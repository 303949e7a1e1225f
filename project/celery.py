"""The Celery app. Its `redis://` broker is our own transport (fair queues under leases) on that Redis."""

import os
from typing import Final

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

TRANSPORT: Final = "workers.transport:Transport"

# The alias keeps the URL `redis://`, which Flower and every Redis tool know. A string: loaded by the process
# that first connects, so the web process never imports the worker side.
TRANSPORT_ALIASES["redis"] = TRANSPORT
TRANSPORT_ALIASES["rediss"] = TRANSPORT

app = Celery("sluice")
app.config_from_object("project.celeryconfig")
app.autodiscover_tasks(["inference"])
