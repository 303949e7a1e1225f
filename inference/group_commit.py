"""Commits what many coroutines ask for together: whatever is there when the last commit ended."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from inference import durability, lifecycle, write_lock
from inference.answer import Answer
from inference.durability import Disk

logger = logging.getLogger(__name__)

Apply = Callable[[Sequence[lifecycle.Change]], list[lifecycle.Applied]]

MAX_BATCH: Final = 256
"""Most changes in one transaction, so that a burst holds SQLite's write lock for tens of milliseconds at most."""
RETRY_SECONDS: Final = (0.05, 0.2, 1.0, 3.0)
"""Waits between tries while the database is away: less than a lease in all. Changes may be tried again, since
each is conditional on the row."""


class _Asked(NamedTuple):
    change: lifecycle.Change
    answer: Answer[lifecycle.Applied]


class GroupCommit:
    """One thread and one database connection behind a queue of changes. No timer: a lone change goes at once."""

    def __init__(self, apply: Apply = lifecycle.apply, *, name: str = "group-commit") -> None:
        self._apply = apply
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, change: lifecycle.Change) -> Answer[lifecycle.Applied]:
        """Queue a change; the answer comes after its commit: what became of it, or the database's error.

        By then it is on the disk too, unless it is a start: a machine that fails ends what was begun as well.
        Thread-safe; changes apply in the order of submission. Raises RuntimeError after `close`.
        """
        asked = _Asked(change, Answer())
        with self._closing:  # else a change could land behind the end mark, and never be answered
            if self._is_closed:
                raise RuntimeError("the group commit is closed")
            self._asked.put(asked)
        return asked.answer

    def close(self) -> None:
        """Commit what is queued, then end the thread. Blocks until it has ended."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._asked.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while batch := self._next_batch():
                self._commit(batch)
        finally:
            connection.close()

    def _next_batch(self) -> list[_Asked]:
        """Wait for a change and take what else is there; empty at the end."""
        batch: list[_Asked] = []
        asked = self._asked.get()
        while asked is not None:
            batch.append(asked)
            if len(batch) == MAX_BATCH or self._asked.empty():
                return batch
            asked = self._asked.get()
        self._asked.put(None)  # seen with a batch in hand: the next call meets it again, and ends
        return batch

    def _commit(self, batch: list[_Asked]) -> None:
        try:
            answers, disk = self._apply_stubbornly([asked.change for asked in batch])
        except Exception as error:  # whatever it is, those who wait must hear of it
            if len(batch) == 1:
                logger.exception("Commit failed", extra={"action": "commit_failed"})
                batch[0].answer.fail(error)
                return
            for asked in batch:  # one of them is to blame: the others must not share its fate
                self._commit([asked])
            return
        _tell(list(zip(batch, answers, strict=True)), disk)

    def _apply_stubbornly(self, changes: list[lifecycle.Change]) -> tuple[list[lifecycle.Applied], Disk]:
        for wait_seconds in RETRY_SECONDS:
            try:
                return self._apply_once_free(changes)
            except (OperationalError, InterfaceError) as error:
                _note(error, wait_seconds, len(changes))
                time.sleep(wait_seconds)
        return self._apply_once_free(changes)

    def _apply_once_free(self, changes: list[lifecycle.Change]) -> tuple[list[lifecycle.Applied], Disk]:
        with durability.deferred() as disk:
            return write_lock.once_free(lambda: self._apply(changes)), disk


def _tell(applied: list[tuple[_Asked, lifecycle.Applied]], disk: Disk) -> None:
    """Give the answers: of what began at once, of all else when it is on the disk."""
    rest = []
    for asked, answer in applied:
        if isinstance(asked.change, lifecycle.Start) and answer.moved:
            asked.answer.give(answer)
        else:
            rest.append((asked, answer))
    if rest:
        _tell_once_on_disk(rest, disk)


def _tell_once_on_disk(applied: list[tuple[_Asked, lifecycle.Applied]], disk: Disk) -> None:
    try:
        disk.wait()
    except OperationalError as error:  # committed all the same: asked again, a change finds itself done
        logger.exception("Commit not on the disk", extra={"action": "commit_failed"})
        for asked, _ in applied:
            asked.answer.fail(error)
        return
    for asked, answer in applied:
        asked.answer.give(answer)


def _note(error: DatabaseError | InterfaceError, wait_seconds: float, count: int) -> None:
    connection.close()  # it may be dead without knowing it
    logger.warning(
        "Commit failed, trying again: %s",
        error,
        extra={"action": "commit_retried", "count": count, "seconds": wait_seconds},
    )
