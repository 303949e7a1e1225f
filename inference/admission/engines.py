"""The live workers as admission knows them: a second old at most, on a database error the last known."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from inference import clock, fleet, last_good
from inference.capacity import Replica
from inference.models import Worker
from inference.states import WorkerState

STARTED: Final = frozenset({WorkerState.READY, WorkerState.PAUSED})
"""With engines that are there, though a paused worker claims nothing now."""


def replicas(*, max_age_seconds: float = last_good.MAX_AGE_SECONDS) -> tuple[Replica, ...]:
    """Return the live replicas of all models, read no longer ago than that.

    Thread-safe. Raises django.db.Error if they never could be read.
    """
    return _replicas.get(max_age_seconds=max_age_seconds)


def seconds_left() -> float:
    """Return how long calls go by what is known; less than 0 if the next one reads."""
    return _replicas.seconds_left()


def live(workers: Iterable[Worker], *, now: datetime) -> tuple[Replica, ...]:
    """Return those of the workers that count as replicas."""
    return tuple(_replica(row) for row in workers if _is_live(row, now))


def forget() -> None:
    """Drop what is cached: the next call reads."""
    _replicas.forget()


def _read() -> tuple[Replica, ...]:
    return live(Worker.objects.all(), now=clock.now())


_replicas: Final = last_good.LastGood(_read, what="workers")


def _is_live(row: Worker, now: datetime) -> bool:
    return row.state not in fleet.ENDING and not fleet.is_stale(row.heartbeat_at, now=now)


def _replica(row: Worker) -> Replica:
    return Replica(row.model_id, tuple(row.serve), row.slots, row.state in STARTED)
