"""The live workers as admission knows them: a second old at most, on a database error the last known."""

import logging
import threading
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from django.db import Error, connection

from inference import clock, fleet
from inference.capacity import Replica
from inference.models import Worker
from inference.states import WorkerState

logger = logging.getLogger(__name__)

MAX_AGE_SECONDS: Final = 1.0
STARTED: Final = frozenset({WorkerState.READY, WorkerState.PAUSED})
"""With engines that are there, though a paused worker claims nothing now."""


class _Cache:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reading = threading.Lock()
        """Held over a read: who finds replicas young enough does not wait for it."""
        self.replicas: tuple[Replica, ...] | None = None
        self.read_at = 0.0


_cache = _Cache()


def replicas(*, max_age_seconds: float = MAX_AGE_SECONDS) -> tuple[Replica, ...]:
    """Return the live replicas of all models, read no longer ago than that.

    Thread-safe. Raises django.db.Error if they never could be read.
    """
    known = _known(max_age_seconds)
    return _read_once(max_age_seconds) if known is None else known


def seconds_left() -> float:
    """Return how long calls go by what is known; less than 0 if the next one reads."""
    return _cache.read_at + MAX_AGE_SECONDS - time.monotonic()


def live(workers: Iterable[Worker], *, now: datetime) -> tuple[Replica, ...]:
    """Return those of the workers that count as replicas."""
    return tuple(_replica(row) for row in workers if _is_live(row, now))


def forget() -> None:
    """Drop what is cached: the next call reads."""
    with _cache.lock:
        _cache.replicas = None


def _known(max_age_seconds: float) -> tuple[Replica, ...] | None:
    with _cache.lock:
        return _cache.replicas if time.monotonic() - _cache.read_at < max_age_seconds else None


def _read_once(max_age_seconds: float) -> tuple[Replica, ...]:
    """Read, unless another thread just did."""
    with _cache.reading:
        known = _known(max_age_seconds)
        if known is not None:
            return known
        found = _read_or(_cache.replicas)
        with _cache.lock:
            _cache.replicas, _cache.read_at = found, time.monotonic()
        return found


def _read_or(last_known: tuple[Replica, ...] | None) -> tuple[Replica, ...]:
    try:
        return live(Worker.objects.all(), now=clock.now())
    except Error as error:
        if last_known is None:
            raise
        connection.close()
        logger.warning("Workers not readable, the last known hold: %s", error, extra={"action": "workers_kept"})
        return last_known


def _is_live(row: Worker, now: datetime) -> bool:
    return row.state not in fleet.ENDING and not fleet.is_stale(row.heartbeat_at, now=now)


def _replica(row: Worker) -> Replica:
    return Replica(row.model_id, tuple(row.serve), row.slots, row.state in STARTED)
