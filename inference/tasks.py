"""Celery's way in: each task has the name of what it calls. Beat sends them to the default queue, `control`.

The periodic ones send no events: in Flower's list of tasks they would bury the jobs.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from celery import shared_task
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from inference import bodies, broker, clock, feeding, maintenance, queue_limits, reconciliation

logger = logging.getLogger(__name__)

RUN_JOB: Final = "inference.run_job"
"""The task name of every job: what Flower and `inspect` show. Its id is `job:claim`."""

_reconciler: Final = reconciliation.Reconciler()


@contextmanager
def _put_off_by_outages(task: str) -> Iterator[None]:
    """Leave what an outage of Redis or the database keeps from its end to the next run, with a line in the log."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OperationalError | InterfaceError) or broker.may_heal(error)):
            raise
        logger.warning("%s is put off: %s", task, error, extra={"action": "task_put_off"})


@shared_task(name=RUN_JOB)
def run_job() -> NoReturn:
    """Stand for a job's run in Celery's registry. The engine pool runs jobs itself and never calls this."""
    raise RuntimeError("a job reached a pool that has no engine: start workers with `manage.py worker`")


@shared_task(name="inference.reconcile", send_events=False)
@_put_off_by_outages("reconcile")
def reconcile() -> None:
    """Hold queues and rows against each other; of limits, too, each queue has a row."""
    _reconciler.run(timezone.now())
    queue_limits.complete()


@shared_task(name="inference.reap", send_events=False)
@_put_off_by_outages("reap")
def reap() -> None:
    """Bring jobs on whose lease ran out."""
    maintenance.reap()


@shared_task(name="inference.expire", send_events=False)
@_put_off_by_outages("expire")
def expire() -> None:
    """End jobs that did not start in time."""
    clock.now()  # asked here: what comes reckons on
    maintenance.expire(timezone.now())


@shared_task(name="inference.feed", send_events=False)
@_put_off_by_outages("feed")
def feed() -> None:
    """Bring spilled jobs into their queues."""
    feeding.feed()


@shared_task(name="inference.count_spending", send_events=False)
@_put_off_by_outages("count_spending")
def count_spending() -> None:
    """Hold budgets against the database."""
    maintenance.count_spending(clock.now())


@shared_task(name="inference.prune_bodies", send_events=False)
@_put_off_by_outages("prune_bodies")
def prune_bodies() -> None:
    """Remove stored requests that no job has."""
    bodies.prune(clock.now())


@shared_task(name="inference.prune_workers", send_events=False)
@_put_off_by_outages("prune_workers")
def prune_workers() -> None:
    """Forget workers that are gone."""
    maintenance.prune_workers(clock.now())
