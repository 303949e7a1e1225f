"""What is told is on the disk; the write lock is not held until then, and a start need not be told of."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import OperationalError, connection, transaction

from inference import durability, errors, lifecycle, submission
from inference.broker import Broker
from inference.group_commit import GroupCommit
from inference.models import Job, Tenant
from inference.states import JobStatus
from tests import factories
from tests.conftest import DATABASE_OPTIONS
from tests.integration import submitting
from tests.integration.submitting import submit
from tests.waiting import until

pytestmark = pytest.mark.once
model_files = submitting.model_files


class Disk:
    """Notes what is written through, and may be slow or broken."""

    def __init__(self) -> None:
        self.logs: list[int] = []
        self.is_ready = threading.Event()
        self.is_ready.set()
        self.breaks = False

    def __call__(self, descriptor: int) -> None:
        self.logs.append(os.fstat(descriptor).st_ino)
        self.is_ready.wait(10)
        if self.breaks:
            raise OSError(5, "Input/output error")


@pytest.fixture
def disk(database: None) -> Iterator[Disk]:
    """The disk, on which SQLite waits as it does in production."""
    disk, begin = Disk(), "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(DATABASE_OPTIONS, "init_command", begin)
        patch.setattr(durability, "_write_through", disk)
        connection.close()
        yield disk
        disk.is_ready.set()
    connection.close()


@pytest.fixture
def commits(disk: Disk) -> Iterator[GroupCommit]:
    commits = GroupCommit()
    yield commits
    disk.is_ready.set()
    commits.close()


def level() -> int:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA synchronous")
        return int(cursor.fetchone()[0])


def log() -> int:
    connection.ensure_connection()  # the last that closes takes the log with it
    return Path(f"{connection.settings_dict['NAME']}-wal").stat().st_ino


def test_a_commit_leaves_the_disk_for_later_and_is_seen_at_once(disk: Disk) -> None:
    with durability.deferred() as rest:
        before = level()
        Tenant.objects.create(name="new")
    assert (before, level(), disk.logs) == (1, 2, [])
    assert Tenant.objects.filter(name="new").exists()

    rest.wait()
    assert disk.logs == [log()]


def test_what_fails_waits_for_the_disk_again_afterwards(disk: Disk) -> None:
    with pytest.raises(ValueError, match="no"), durability.deferred():
        raise ValueError("no")
    assert level() == 2


def test_a_larger_transaction_waits_for_the_disk_as_it_ends(disk: Disk) -> None:
    with transaction.atomic(), durability.deferred() as rest:
        assert level() == 2
    rest.wait()
    assert disk.logs == []


def test_who_never_waits_does_not_begin_to(database: None) -> None:
    with durability.deferred() as rest:
        assert level() == 0, "as in all tests but these"
    rest.wait()
    assert level() == 0


def test_a_client_is_told_when_its_job_is_on_the_disk_and_workers_before(sluice: Broker, disk: Disk) -> None:
    at = log()
    disk.is_ready.clear()
    told: list[Job] = []

    def client() -> None:
        told.append(submit())
        connection.close()

    waiting = threading.Thread(target=client)
    waiting.start()
    until(lambda: submitting.waiting(sluice) == 1)
    assert told == []
    disk.is_ready.set()
    waiting.join(10)

    assert sluice.held([told[0].id])
    assert disk.logs == [at]


def test_a_disk_that_fails_is_told_of_and_loses_no_job(sluice: Broker, disk: Disk) -> None:
    disk.breaks = True
    with pytest.raises(errors.Unavailable, match="disk"):
        submit()
    assert sluice.held([Job.objects.get().id]), "it may have been written all the same"


def test_those_who_are_committed_together_wait_for_the_disk_once_and_hear_the_same(
    sluice: Broker, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go, create, at = threading.Event(), lifecycle.create, log()
    monkeypatch.setattr(lifecycle, "create", lambda jobs: may_go.wait(10) and create(jobs))
    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(_client) for _ in range(4)]
        until(lambda: len(submission._commit._waiting) == 3)
        disk.breaks = True
        may_go.set()
        assert {type(client.exception(10)) for client in clients} == {errors.Unavailable}
    assert disk.logs == [at, at], "the first's own, and that of those who came meanwhile"
    assert submitting.waiting(sluice) == 4


def _client() -> None:
    try:
        submit()
    finally:
        connection.close()


def test_a_start_is_told_without_the_disk_and_an_end_with_it(disk: Disk, commits: GroupCommit) -> None:
    disk.is_ready.clear()
    job = factories.make_job()
    token = factories.make_token(job.id)
    assert commits.submit(lifecycle.Start(token, "w")).result(10).moved

    ending = commits.submit(factories.make_success(token))
    until(lambda: Job.objects.get(id=job.id).status == JobStatus.SUCCEEDED)
    assert not ending.is_there
    disk.is_ready.set()
    assert ending.result(10).moved


def test_a_start_waits_for_no_end_that_is_committed_with_it(disk: Disk, commits: GroupCommit) -> None:
    _, token = factories.make_running_job()
    first, second = (lifecycle.Start(factories.make_token(factories.make_job().id), "w") for _ in range(2))
    disk.logs.clear()
    disk.is_ready.clear()
    with transaction.atomic():  # the first waits for the lock, the others for the first
        commits.submit(first)
        until(commits._asked.empty)
        ending, starting = commits.submit(factories.make_success(token)), commits.submit(second)
    assert starting.result(10).moved
    assert not ending.is_there


def test_an_end_whose_disk_failed_is_asked_for_again(disk: Disk, commits: GroupCommit) -> None:
    _, token = factories.make_running_job()
    disk.breaks = True
    with pytest.raises(OperationalError, match="disk"):
        commits.submit(factories.make_success(token)).result(10)
    disk.breaks = False

    assert commits.submit(factories.make_success(token)).result(10).status is JobStatus.SUCCEEDED
