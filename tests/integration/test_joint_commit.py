"""Many threads, one transaction."""

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from inference import errors, joint_commit, lifecycle, submission, write_lock
from inference.broker import Broker
from inference.joint_commit import JointCommit
from inference.models import Job, Tenant
from tests import factories
from tests.integration import submitting
from tests.integration.submitting import submit, waiting
from tests.waiting import until

model_files = submitting.model_files
Writes = JointCommit[str, str]
Ask = Callable[..., "Future[str]"]

THREADS = 8


class Tenants:
    """Makes tenants, remembers the batches, and can be held up or made to fail."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.told: list[list[str]] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.may_tell = threading.Event()
        self.may_tell.set()
        self.failures: list[Exception] = []

    def write(self, names: Sequence[str]) -> list[str]:
        self.batches.append(list(names))
        self.may_go.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        with transaction.atomic():
            for name in names:
                Tenant.objects.create(name=name)
        return [f"made {name}" for name in names]

    def tell(self, names: Sequence[str]) -> None:
        self.told.append(list(names))
        self.may_tell.wait(10)

    def names(self) -> set[str]:
        return {name for name in Tenant.objects.values_list("name", flat=True) if name.startswith("new")}


@pytest.fixture
def tenants(database: None) -> Iterator[Tenants]:
    made = Tenants()
    yield made
    made.may_go.set()
    made.may_tell.set()


@pytest.fixture
def commit(tenants: Tenants) -> Writes:
    return JointCommit(tenants.write, tenants.tell)


@pytest.fixture
def ask(tenants: Tenants, commit: Writes) -> Iterator[Ask]:
    """Ask in a thread; it returns when that writes, or waits for the others."""
    with ThreadPoolExecutor(THREADS) as pool:

        def asked(name: str, rows: int = 1) -> "Future[str]":
            future = pool.submit(_closing, lambda: commit(name, rows=rows)[0])
            until(lambda: name in {*itertools.chain(*tenants.batches), *(each.item for each in commit._waiting)})
            return future

        yield asked
        tenants.may_go.set()
        tenants.may_tell.set()


def _closing(work: Callable[[], str]) -> str:
    try:
        return work()
    finally:
        connection.close()


def error_of(future: "Future[str]") -> type | None:
    return type(error) if (error := future.exception(10)) else None


def test_a_lone_write_is_done_at_once_in_its_own_thread(tenants: Tenants, commit: Writes) -> None:
    before = threading.active_count()
    assert commit("new", rows=1)[0] == "made new"
    assert (tenants.batches, tenants.told, tenants.names()) == ([["new"]], [["new"]], {"new"})
    assert threading.active_count() == before


def test_what_is_part_of_a_larger_transaction_is_told_after_it(tenants: Tenants, commit: Writes) -> None:
    with transaction.atomic():
        commit("new", rows=1)
        assert tenants.told == []
    assert tenants.told == [["new"]]


def test_what_is_rolled_back_is_never_told(tenants: Tenants, commit: Writes) -> None:
    with transaction.atomic():
        commit("new", rows=1)
        transaction.set_rollback(True)
    assert (tenants.told, tenants.names()) == ([], set())


@pytest.mark.once
def test_what_came_during_a_commit_goes_in_the_next_one_together(
    tenants: Tenants, commit: Writes, ask: Ask
) -> None:
    tenants.may_go.clear()
    futures = [ask(f"new-{i}") for i in range(5)]
    assert tenants.batches == [["new-0"]]
    tenants.may_go.set()

    assert [future.result(10) for future in futures] == [f"made new-{i}" for i in range(5)]
    assert tenants.batches == sorted(tenants.told) == [["new-0"], ["new-1", "new-2", "new-3", "new-4"]]
    assert commit("new-9", rows=1)[0] == "made new-9", "and who comes later writes at once"


@pytest.mark.once
def test_a_transaction_has_few_rows_unless_one_write_brings_more(
    tenants: Tenants, commit: Writes, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint_commit, "MAX_ROWS", 10)
    tenants.may_go.clear()
    futures = [ask(f"new-{i}", rows) for i, rows in enumerate([1, 6, 4, 1, 99, 1])]
    tenants.may_go.set()

    assert all(future.result(10) for future in futures)
    assert tenants.batches == [["new-0"], ["new-1", "new-2"], ["new-3"], ["new-4"], ["new-5"]]


@pytest.mark.once
def test_a_write_that_cannot_be_done_takes_no_other_down_with_it(
    tenants: Tenants, commit: Writes, ask: Ask
) -> None:
    Tenant.objects.create(name="there")
    tenants.may_go.clear()
    futures = [ask(name) for name in ("new-0", "new-1", "there", "new-2")]
    tenants.may_go.set()

    assert [error_of(future) for future in futures] == [None, None, IntegrityError, None]
    assert tenants.names() == {"new-0", "new-1", "new-2"}
    assert tenants.told == [["new-0"], ["new-1", "new-2"]]


@pytest.mark.once
def test_a_database_that_is_away_is_told_to_all_who_wait_and_to_no_later_one(
    tenants: Tenants, commit: Writes, ask: Ask
) -> None:
    tenants.may_go.clear()
    futures = [ask(f"new-{i}") for i in range(3)]
    tenants.failures = [OperationalError("away"), OperationalError("away")]
    tenants.may_go.set()

    assert [error_of(future) for future in futures] == [OperationalError] * 3
    assert tenants.batches == [["new-0"], ["new-1", "new-2"]], "it is asked once"
    assert (tenants.told, tenants.names()) == ([], set())
    assert commit("new-3", rows=1)[0] == "made new-3"


@pytest.mark.once
def test_who_waits_for_too_long_leaves_with_nothing_written(
    tenants: Tenants, commit: Writes, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants.may_go.clear()
    first = ask("new-0")
    monkeypatch.setattr(write_lock, "LOCK_SECONDS", 0.0)
    with pytest.raises(OperationalError, match="other threads"):
        commit("new-1", rows=1)
    tenants.may_go.set()

    assert first.result(10) == "made new-0"
    assert (tenants.batches, commit._is_led) == ([["new-0"]], False)


@pytest.mark.once
def test_nobody_waits_for_what_others_are_told(tenants: Tenants, commit: Writes, ask: Ask) -> None:
    tenants.may_tell.clear()
    first = ask("new-0")
    until(lambda: tenants.told)
    second = ask("new-1")
    until(lambda: tenants.names() == {"new-0", "new-1"})
    assert not first.done()
    tenants.may_tell.set()

    assert (first.result(10), second.result(10)) == ("made new-0", "made new-1")


@pytest.mark.once
def test_what_was_written_is_written_whatever_becomes_of_the_telling(
    database: None, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Sequence[str]) -> None:
        raise ValueError("nobody listens")

    assert JointCommit(Tenants().write, fail)("new", rows=1)[0] == "made new"
    assert "announced" in caplog.text


class LateLock:
    """A lock that the thread called `late` leaves only when the lead was handed on."""

    def __init__(self) -> None:
        self.lock, self.handed_on = threading.Lock(), threading.Event()

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()
        if threading.current_thread().name == "late":
            self.handed_on.wait(10)


@pytest.mark.once
def test_who_is_made_the_leader_before_it_waits_tells_all_who_wait_for_it(
    tenants: Tenants, commit: Writes, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, hand_on = LateLock(), commit._hand_on

    def handing_on() -> None:
        hand_on()
        lock.handed_on.set()

    monkeypatch.setattr(commit, "_lock", lock)
    monkeypatch.setattr(commit, "_hand_on", handing_on)
    tenants.may_go.clear()
    first = ask("new-0")
    late = threading.Thread(name="late", target=_closing, args=[lambda: commit("new-1", rows=1)[0]])
    late.start()
    until(lambda: len(commit._waiting) == 1)
    behind = ask("new-2")
    tenants.may_go.set()

    assert (first.result(10), behind.result(10)) == ("made new-0", "made new-2")
    late.join(10)
    assert tenants.names() == {"new-0", "new-1", "new-2"}


@pytest.mark.once
def test_submissions_that_wait_are_committed_and_published_together(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go, batches, create = threading.Event(), list[int](), lifecycle.create

    def held_up(jobs: Sequence[lifecycle.NewJob]) -> list[Job]:
        batches.append(len(jobs))
        may_go.wait(10)
        return create(jobs)

    monkeypatch.setattr(lifecycle, "create", held_up)
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(_submitted, "sk-gone" if i == 5 else None) for i in range(THREADS)]
        until(lambda: len(submission._commit._waiting) == THREADS - 1)
        may_go.set()
        found = [future.result(10) for future in futures]

    assert found.count("queued") == THREADS - 1
    assert found[5] == "Unavailable", "its key is gone"
    assert batches[:2] == [1, THREADS - 1]
    assert (Job.objects.count(), waiting(sluice)) == (THREADS - 1, THREADS - 1)
    ids = set(Job.objects.values_list("id", flat=True))
    assert sluice.held(ids) == ids


def _submitted(api_key_id: str | None) -> str:
    try:
        return str(submit(caller=factories.make_caller(api_key_id=api_key_id)).status)
    except errors.Unavailable as error:
        return type(error).__name__
    finally:
        connection.close()
