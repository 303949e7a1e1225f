"""What is read from the database now and then, and holds on while it cannot be."""

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from django.db import Error, connection

logger = logging.getLogger(__name__)

MAX_AGE_SECONDS: Final = 1.0

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What this process goes by."""

    age_seconds: float | None
    """Since the last good read; None before any."""
    error: str
    """Why the last read failed, so that an older value holds; empty if it did not."""


class LastGood(Generic[Value]):
    """A value of this process, read anew when it is a second old; on a database error the last good one.

    Fails open, with a log line. Thread-safe.
    """

    def __init__(self, read: Callable[[], Value], *, what: str) -> None:
        """Wrap `read`, which raises django.db.Error if it can't; `what` names the value in the log."""
        self._read = read
        self._what = what
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        """Held over a read: who finds a value young enough does not wait for it."""
        self._value: Value | None = None
        self._read_at = -math.inf
        self._good_at: float | None = None
        self._error = ""

    def get(self, *, max_age_seconds: float = MAX_AGE_SECONDS) -> Value:
        """Return the value, read no longer ago than that. Raises django.db.Error only if it never could be."""
        known = self._known(max_age_seconds)
        return self._read_once(max_age_seconds) if known is None else known

    def seconds_left(self) -> float:
        """Return how long calls go by what is known; less than 0 if the next one reads."""
        return self._read_at + MAX_AGE_SECONDS - time.monotonic()

    def renew(self) -> None:
        """Have the next call read, however young the value is; if it cannot, it holds on."""
        with self._reading, self._lock:  # a read under way may have begun before what is to be seen
            self._read_at = -math.inf

    def forget(self) -> None:
        """Drop what is known: the next call reads, or fails."""
        with self._lock:
            self._value = self._good_at = None

    def standing(self) -> Standing:
        """Return how old the value is, looked at anew, and what keeps this process from a newer one."""
        with contextlib.suppress(Error):
            self.get()
        with self._lock:
            age = None if self._good_at is None else time.monotonic() - self._good_at
            return Standing(age_seconds=age, error=self._error)

    def _known(self, max_age_seconds: float) -> Value | None:
        with self._lock:
            return self._value if time.monotonic() - self._read_at < max_age_seconds else None

    def _read_once(self, max_age_seconds: float) -> Value:
        """Read, unless another thread just did."""
        with self._reading:
            known = self._known(max_age_seconds)
            if known is not None:
                return known
            found = self._read_or(self._value)
            with self._lock:
                # Since its end, however long it took: else all who waited would read, one after the other.
                self._value, self._read_at = found, time.monotonic()
            return found

    def _read_or(self, last_good: Value | None) -> Value:
        try:
            found = self._read()
        except Error as error:
            self._error = str(error)
            if last_good is None:
                raise
            connection.close()  # a broken connection would fail for ever; the next read opens another
            extra = {"action": f"{self._what}_kept"}
            logger.warning("%s not readable, the last good ones hold: %s", self._what.title(), error, extra=extra)
            return last_good
        self._good_at, self._error = time.monotonic(), ""
        return found
