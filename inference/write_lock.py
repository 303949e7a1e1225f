"""SQLite's write lock, looked for every few milliseconds: for the writes that a job's first token waits for."""

import contextlib
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from django.db import OperationalError, connection

T = TypeVar("T")

LOCK_MS: Final = 3
"""How long SQLite waits for its write lock by itself: its steps grow to 0.1 s, and a commit takes 2 ms."""
LOCK_SECONDS: Final = 20.0
"""How long it is waited for in all."""


_turn: Final = threading.Lock()
"""Of the threads of this process one looks for the lock, the others wait for that one."""


def once_free(write: Callable[[], T]) -> T:
    """Call `write`, a transaction of its own, as soon as nobody else writes; it is begun anew until then.

    Raises django.db.OperationalError after `LOCK_SECONDS`, with nothing written, and what `write` raises.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return write()
    ends_at = time.monotonic() + LOCK_SECONDS
    if not _turn.acquire(timeout=LOCK_SECONDS):
        raise OperationalError("database is locked: other threads wrote all the time")
    try:
        with _hurried():
            return _insist(write, ends_at)
    finally:
        _turn.release()


def _insist(write: Callable[[], T], ends_at: float) -> T:
    while True:
        try:
            return write()
        except OperationalError as error:
            if not _is_locked(error) or time.monotonic() > ends_at:
                raise
            let_go(error)


def let_go(error: BaseException) -> None:
    """Free the cursors of a failed try now, in their own thread.

    Its frames and the exception hold each other. The collector would free them in any thread, which then waits for
    the connection's mutex: for as long as its owner waits for the lock that the thread may itself hold.
    """
    for each in (error, error.__cause__):
        if each:
            traceback.clear_frames(each.__traceback__)


@contextlib.contextmanager
def _hurried() -> Iterator[None]:
    """Keep SQLite's own wait short, for as long as this lasts: other writes on the connection have it whole."""
    connection.ensure_connection()
    raw = connection.connection
    [(before_ms,)] = raw.execute("PRAGMA busy_timeout")
    raw.execute(f"PRAGMA busy_timeout = {LOCK_MS}")
    try:
        yield
    finally:
        if connection.connection is raw:  # else it broke and was closed
            raw.execute(f"PRAGMA busy_timeout = {before_ms}")


def _is_locked(error: OperationalError) -> bool:
    cause = error.__cause__
    return isinstance(cause, sqlite3.OperationalError) and cause.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
