"""The limits of all processes: read from the tables, at most one second old."""

from typing import Final

from inference.limits import Limits

MAX_AGE_SECONDS: Final = 1.0


def limits() -> Limits:
    """Return the current limits; on a database error the last good ones (fails open, with a log line).

    Thread-safe. Raises django.db.Error only if there never was a good read.
    """
    raise NotImplementedError


def forget() -> None:
    """Drop what is cached: the next call reads. For tests and after a fork."""
    raise NotImplementedError
