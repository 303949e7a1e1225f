"""SQLite's write lock is looked for often by those in a hurry, and by nobody else."""

import gc
import sqlite3
import threading
from collections.abc import Callable, Iterator

import pytest
from django.db import OperationalError, connection, transaction

from inference import errors, lifecycle, write_lock
from inference.broker import Broker
from inference.models import Job, Tenant
from tests.integration import submitting
from tests.integration.submitting import assert_nothing_left, submit

pytestmark = pytest.mark.once
model_files = submitting.model_files


@pytest.fixture
def other(database: None) -> Iterator[sqlite3.Connection]:
    """Another writer's connection, in its transaction."""
    opened = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    opened.execute("BEGIN IMMEDIATE")
    yield opened
    opened.rollback()  # a closed connection keeps its lock for as long as somebody holds one of its statements
    opened.close()


class Write:
    """A write of one row, which has the other writer end at its third try."""

    def __init__(self, other: sqlite3.Connection, write: Callable[..., object]) -> None:
        self._other = other
        self._write = write
        self.tries = 0

    def __call__(self, *args: object) -> object:
        self.tries += 1
        if self.tries == 3:
            self._other.rollback()
        return self._write(*args)


def make_tenant() -> None:
    with transaction.atomic():
        Tenant.objects.create(name="new")


def patience_ms() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        return int(cursor.fetchone()[0])


def test_it_is_tried_again_until_the_lock_is_free(other: sqlite3.Connection) -> None:
    before_ms, write = patience_ms(), Write(other, make_tenant)
    write_lock.once_free(write)

    assert (write.tries, Tenant.objects.filter(name="new").count()) == (3, 1)
    assert patience_ms() == before_ms > write_lock.LOCK_MS


def test_it_gives_up_in_the_end(other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock, "LOCK_SECONDS", 0.0)
    before_ms, write = patience_ms(), Write(other, make_tenant)
    with pytest.raises(OperationalError, match="locked"):
        write_lock.once_free(write)

    assert write.tries == 1
    assert patience_ms() == before_ms


def test_another_error_is_raised_at_once(database: None) -> None:
    tries: list[int] = []

    def write() -> None:
        tries.append(1)
        raise OperationalError("no such table")

    with pytest.raises(OperationalError, match="no such table"):
        write_lock.once_free(write)
    assert len(tries) == 1


def test_what_is_part_of_a_larger_transaction_is_done_once_and_changes_no_wait(database: None) -> None:
    before_ms, seen = patience_ms(), []
    with transaction.atomic():
        write_lock.once_free(lambda: seen.append(patience_ms()))
    assert seen == [before_ms]


def test_a_submission_looks_often(
    sluice: Broker, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Write(other, lifecycle.create)
    monkeypatch.setattr(lifecycle, "create", write)
    job = submit()

    assert write.tries == 3
    assert sluice.held([job.id]) == {job.id}
    assert Job.objects.get().id == job.id


def test_a_submission_that_finds_no_lock_leaves_nothing(
    sluice: Broker, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "LOCK_SECONDS", 0.0)
    with pytest.raises(errors.Unavailable):
        submit()
    other.rollback()
    assert_nothing_left(sluice)


def cursors() -> int:
    # isinstance asks proxies too, whose object may be gone
    return sum(issubclass(type(each), sqlite3.Cursor) for each in gc.get_objects())


def test_what_failed_leaves_no_cursor_to_the_collector(other: sqlite3.Connection) -> None:
    make_tenant_later = Write(other, make_tenant)
    gc.collect()
    gc.disable()  # it would free them, in whatever thread it runs
    try:
        before = cursors()
        write_lock.once_free(make_tenant_later)
        assert (make_tenant_later.tries, cursors()) == (3, before)
    finally:
        gc.enable()


def test_of_the_threads_of_a_process_one_looks_at_a_time(database: None) -> None:
    inside, most = threading.Semaphore(0), []

    def write() -> None:
        inside.release()
        most.append(inside._value)
        threading.Event().wait(0.002)  # others could come in meanwhile
        inside.acquire()

    def run() -> None:
        write_lock.once_free(write)
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8
