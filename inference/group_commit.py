"""Commits what many coroutines ask for together: whatever is there when the last commit ended."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final

from inference import lifecycle

Apply = Callable[[Sequence[lifecycle.Change]], list[lifecycle.Applied]]

MAX_BATCH: Final = 256
"""Most changes in one transaction, so that a burst holds SQLite's write lock for tens of milliseconds at most."""


class GroupCommit:
    """One thread and one database connection behind a queue of changes. No timer: a lone change goes at once."""

    def __init__(self, apply: Apply = lifecycle.apply) -> None:
        self._apply = apply

    def submit(self, change: lifecycle.Change) -> "Future[lifecycle.Applied]":
        """Queue a change; the future ends after its commit, with what became of it, or with the database's error.

        Thread-safe; changes apply in the order of submission. Raises RuntimeError after `close`.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Commit what is queued, then end the thread. Blocks until it has ended."""
        raise NotImplementedError
