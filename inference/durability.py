"""When a commit to SQLite is on the disk: before its write lock is free again, or a moment later.

`synchronous=FULL` has every commit wait for the disk with the lock in hand, and all others who write wait with it:
about a millisecond, many on a busy disk. But nobody needs the disk before he is told of the commit. What is
committed as `deferred` is seen by all processes at once and outlives each of them; `Disk.wait` returns when it
outlives the machine. PostgreSQL gathers such waits by itself, and nothing is changed there.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from typing import Final

from django.db import OperationalError, connection

_NORMAL: Final = 1
_FULL: Final = 2
_write_through: Final = getattr(os, "fdatasync", os.fsync)


class Disk:
    """What a block's commits still have to do. Thread-safe."""

    def __init__(self, log: str = "") -> None:
        """`log` is the file that holds them; empty: they are on the disk as they end, or need not be."""
        self._log = log
        self._turn = threading.Lock()
        self._error: OSError | None = None

    def wait(self) -> None:
        """Return when all commits of the block are on the disk. Raises OperationalError if it fails.

        Whoever comes first has them written; the others wait for that one, and hear the same.
        """
        with self._turn:
            if self._log:
                self._settle()
        if self._error:
            raise OperationalError(f"the disk failed: {self._error.strerror}") from self._error

    def _settle(self) -> None:
        try:
            _write_log(self._log)
        except OSError as error:
            self._error = error
        self._log = ""


def _write_log(path: str) -> None:
    try:
        log = os.open(path, os.O_RDONLY)  # SQLite has no lock on this file that a second descriptor could end
    except FileNotFoundError:
        return  # by now all of it is in the database, which was written through
    try:
        _write_through(log)
    finally:
        os.close(log)


@contextlib.contextmanager
def deferred() -> Iterator[Disk]:
    """Have this thread's commits to SQLite not wait for the disk; whoever tells of them waits before he does.

    Within a larger transaction nothing is changed: it is its owner's to end.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield Disk()
        return
    connection.ensure_connection()
    raw = connection.connection
    with connection.wrap_database_errors:
        log = _log(raw)
        if log:
            raw.execute(f"PRAGMA synchronous = {_NORMAL}")
    try:
        yield Disk(log)
    finally:
        if log and connection.connection is raw:  # else it broke and was closed
            _wait_again(raw)


def _wait_again(raw: sqlite3.Connection) -> None:
    """Set it back. That this fails says nothing of what was committed: then the next connection will wait."""
    try:
        raw.execute(f"PRAGMA synchronous = {_FULL}")
    except sqlite3.Error:
        connection.close()


def _log(raw: sqlite3.Connection) -> str:
    """Return the path of the file that commits go to; empty if there is none, or they never wait for the disk."""
    [(level,)] = raw.execute("PRAGMA synchronous")
    if level != _FULL:
        return ""
    [(mode,)] = raw.execute("PRAGMA journal_mode")
    [path] = [file for _, name, file in raw.execute("PRAGMA database_list") if name == "main"]
    return f"{path}-wal" if mode == "wal" and path else ""
