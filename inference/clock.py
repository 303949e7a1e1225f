"""The clock of what machines tell each other: Redis', carried on between two looks by a clock that cannot jump.

A host's own clock may be an hour off. When a worker was last heard, since when it is ready, when a pause ended:
what one process writes and another subtracts goes by this clock. It fails open: with Redis away it goes on from
the last look, and in a process that never had one it is the host's.
"""

import threading
import time
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from inference import broker

ASK_SECONDS: Final = 5.0
"""Between two looks, also while Redis does not answer: nobody waits for that at every page."""


class _Look:
    """The last one of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.moment: datetime | None = None
        self.at = 0.0
        """By the monotonic clock."""
        self.tried_at = float("-inf")


_last = _Look()


def now() -> datetime:
    """Return what Redis' clock shows; asks it now and then. Thread-safe, raises nothing."""
    with _last.lock:
        if time.monotonic() - _last.tried_at >= ASK_SECONDS:
            _last.tried_at = time.monotonic()
            _ask()
    return reckoned()


def reckoned() -> datetime:
    """Return the same without asking: for who holds a transaction open."""
    moment, at = _last.moment, _last.at
    return timezone.now() if moment is None else moment + timedelta(seconds=time.monotonic() - at)


def forget() -> None:
    """Drop what is known. For tests."""
    _last.__init__()  # type: ignore[misc]  # the same object, as if new


def _ask() -> None:
    before = time.monotonic()
    try:
        moment = broker.get_broker().now()
    except broker.BrokerAway:
        return
    _last.moment, _last.at = moment, (before + time.monotonic()) / 2
