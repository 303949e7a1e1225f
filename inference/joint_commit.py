"""One transaction for the writes of several threads: whoever comes first writes also what came meanwhile.

For SQLite, where one commit follows the other. No thread of its own and no timer: a lone write begins at once, on
the thread that asks for it. `group_commit` does this for event loops, whose coroutines cannot wait on a lock.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction

from inference import durability, write_lock
from inference.durability import Disk

logger = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

MAX_ROWS: Final = 256
"""Most rows in one transaction, unless one write alone brings more: others must get the lock in between."""


class _Asked(Generic[T, R]):
    """A write, and what became of it."""

    __slots__ = ("disk", "error", "is_leader", "item", "result", "rows", "woken")

    def __init__(self, item: T, rows: int) -> None:
        self.item = item
        self.rows = rows
        self.is_leader = False
        self.woken = threading.Lock()
        """Held until it is written, has failed, or must lead."""
        self.woken.acquire()
        self.result: R
        self.disk: Disk
        self.error: Exception | None = InterfaceError("the write was interrupted")
        """Until it is known."""


class JointCommit(Generic[T, R]):
    """Of the threads that ask, one leads: it writes what all ask for, and hands on to who came meanwhile."""

    def __init__(self, write: Callable[[Sequence[T]], Sequence[R]], then: Callable[[Sequence[T]], None]) -> None:
        """`write` writes all items in one transaction, and returns of each what became of it.

        `then` is told of them after the commit, before those who wait are; the next commit waits neither for it
        nor for the disk.
        """
        self._write = write
        self._then = then
        self._lock = threading.Lock()
        self._waiting: list[_Asked[T, R]] = []
        self._is_led = False
        """Else nobody waits."""

    def __call__(self, item: T, *, rows: int) -> tuple[R, Disk]:
        """Return what became of it after its own commit, or raise its own error: others' do not count.

        All see it then; whether it outlives the machine is for `Disk.wait` to say.
        Raises django.db.OperationalError if others write for `write_lock.LOCK_SECONDS`, with nothing written.
        """
        if connection.vendor != "sqlite" or connection.in_atomic_block:
            return self._alone(item), Disk()
        asked = _Asked[T, R](item, rows)
        self._join(asked)
        if asked.is_leader:
            self._lead()
        if asked.error is not None:
            raise asked.error
        return asked.result, asked.disk

    def _alone(self, item: T) -> R:
        """Write it in the caller's own transaction, or where the database makes one of many commits itself."""

        def then() -> None:  # not a partial: Django tells of a failure by the function's name
            self._then([item])

        with transaction.atomic():
            [result] = self._write([item])
            transaction.on_commit(then, robust=True)
        return result

    def _join(self, asked: _Asked[T, R]) -> None:
        with self._lock:
            self._waiting.append(asked)
            is_first = asked.is_leader = not self._is_led
            self._is_led = True
        # Who leads after another was woken for it, and may be that by now: only the first has nobody to wait for.
        if is_first or asked.woken.acquire(timeout=write_lock.LOCK_SECONDS):
            return
        with self._lock:
            if asked in self._waiting and not asked.is_leader:
                self._waiting.remove(asked)
                raise OperationalError("database is locked: other threads wrote all the time")
        asked.woken.acquire()  # it is being written: what becomes of it is known soon

    def _lead(self) -> None:
        batch = self._next_batch()
        try:
            self._commit(batch)
        finally:
            self._hand_on()
            self._tell(batch)

    def _next_batch(self) -> list[_Asked[T, R]]:
        """Take who waits, the leader first."""
        with self._lock:
            count, rows = 0, 0
            for asked in self._waiting:
                rows += asked.rows
                if count and rows > MAX_ROWS:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _commit(self, batch: Sequence[_Asked[T, R]]) -> None:
        try:
            with durability.deferred() as disk:
                results = write_lock.once_free(lambda: self._write([asked.item for asked in batch]))
        except Exception as error:  # whatever it is, those who wait must hear of it
            write_lock.let_go(error)  # before another thread holds it
            self._blame(batch, error)
            return
        for asked, result in zip(batch, results, strict=True):
            asked.result, asked.disk, asked.error = result, disk, None

    def _blame(self, batch: Sequence[_Asked[T, R]], error: Exception) -> None:
        if len(batch) == 1:
            batch[0].error = error
        elif isinstance(error, OperationalError | InterfaceError):  # the database's fault, whoever asks
            for asked in batch:
                asked.error = type(error)(*error.args)  # one each: they are raised at the same time
        else:  # one of them is to blame: the others must not share its fate
            for asked in batch:
                self._commit([asked])

    def _hand_on(self) -> None:
        with self._lock:
            if not self._waiting:
                self._is_led = False
                return
            heir = self._waiting[0]
            heir.is_leader = True
        heir.woken.release()

    def _tell(self, batch: Sequence[_Asked[T, R]]) -> None:
        written = [asked for asked in batch if asked.error is None]
        try:
            if written:
                self._announce([asked.item for asked in written])
            for asked in written:
                with contextlib.suppress(OperationalError):  # who asked hears of it as he waits for the disk
                    asked.disk.wait()
        finally:
            for asked in batch:
                asked.woken.release()

    def _announce(self, written: Sequence[T]) -> None:
        try:
            self._then(written)
        except Exception:  # it is written, whatever becomes of this
            logger.exception("a commit could not be announced", extra={"action": "commit_not_announced"})
