"""The Celery app. Its `redis://` broker is our own transport (fair queues under leases) on that Redis."""

import importlib
import os
import warnings
from typing import Any, Final

from celery import Celery, signals
from celery.exceptions import CPendingDeprecationWarning
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

# Strings too: only a worker loads these. The last includes itself only where the worker owns an engine.
app.steps["consumer"].update({"workers.leases:LeaseKeeper", "workers.drain:Drain", "workers.consuming:Consuming"})


@signals.worker_init.connect
def prepare_worker(**_: Any) -> None:
    """Put our remote control commands in the place of Celery's."""
    importlib.import_module("workers.controls")


@signals.celeryd_after_setup.connect
def say_nothing_at_a_reconnect(**_: Any) -> None:
    """Spare the log a paragraph on a default to come: we set it. After Celery's own filters, which show it."""
    warnings.filterwarnings("ignore", message="\nIn Celery 5.1", category=CPendingDeprecationWarning)
