"""Many coroutines, one transaction."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from django.db import OperationalError, transaction

from inference import group_commit, lifecycle
from inference.group_commit import GroupCommit
from inference.states import FailureReason, JobStatus
from tests import factories
from tests.waiting import until


class Recorder:
    """Applies changes, remembers the batches, and can be held up or made to fail."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.failures: list[Exception] = []

    def __call__(self, changes: Sequence[lifecycle.Change]) -> list[lifecycle.Applied]:
        self.batches.append(len(changes))
        self.may_go.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        return lifecycle.apply(changes)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def commit(database: None, recorder: Recorder) -> Iterator[GroupCommit]:
    group = GroupCommit(recorder)
    yield group
    recorder.may_go.set()
    group.close()


def test_a_lone_change_is_committed_at_once(commit: GroupCommit, recorder: Recorder) -> None:
    job = factories.make_job()
    applied = commit.submit(lifecycle.Start(factories.make_token(job.id), "worker-1")).result(10)

    assert applied.moved
    assert applied.work is not None
    assert recorder.batches == [1]


def test_what_came_during_a_commit_goes_in_the_next_one_together(commit: GroupCommit, recorder: Recorder) -> None:
    jobs = [factories.make_job() for _ in range(21)]
    recorder.may_go.clear()
    first = commit.submit(lifecycle.Start(factories.make_token(jobs[0].id), "w"))
    until(lambda: recorder.batches == [1])
    rest = [commit.submit(lifecycle.Start(factories.make_token(job.id), "w")) for job in jobs[1:]]
    recorder.may_go.set()

    assert all(answer.result(10).moved for answer in [first, *rest])
    assert recorder.batches == [1, 20]


def test_a_batch_is_bounded(commit: GroupCommit, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_BATCH", 4)
    jobs = [factories.make_job() for _ in range(9)]
    recorder.may_go.clear()
    answers = [commit.submit(lifecycle.Cancel(jobs[0].id))]
    until(lambda: recorder.batches == [1])
    answers += [commit.submit(lifecycle.Cancel(job.id)) for job in jobs[1:]]
    recorder.may_go.set()

    assert all(answer.result(10).moved for answer in answers)
    assert recorder.batches == [1, 4, 4]


def test_changes_apply_in_the_order_they_were_asked_for(commit: GroupCommit) -> None:
    job = factories.make_job()
    token = factories.make_token(job.id)
    changes: list[lifecycle.Change] = [
        lifecycle.Start(token, "w"),
        factories.make_success(token),
        lifecycle.Cancel(job.id),
    ]
    answers = [answer.result(10) for answer in [commit.submit(change) for change in changes]]

    assert [a.moved for a in answers] == [True, True, False]


def test_a_database_that_is_briefly_away_is_asked_again(
    commit: GroupCommit, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", (0.0, 0.0))
    recorder.failures = [OperationalError("locked"), OperationalError("locked")]
    job = factories.make_job()

    assert commit.submit(lifecycle.Cancel(job.id)).result(10).moved
    assert recorder.batches == [1, 1, 1]


def test_a_database_that_stays_away_is_told_to_those_who_wait(
    commit: GroupCommit, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", (0.0,))
    recorder.failures = [OperationalError("away")] * 2
    job = factories.make_job()
    with pytest.raises(OperationalError):
        commit.submit(lifecycle.Cancel(job.id)).result(10)

    assert commit.submit(lifecycle.Cancel(job.id)).result(10).moved, "the thread lives on"


def test_a_change_that_cannot_be_written_takes_no_other_down_with_it(database: None) -> None:
    jobs = [factories.make_running_job() for _ in range(3)]
    bad = jobs[1][1]

    def picky(changes: Sequence[lifecycle.Change]) -> list[lifecycle.Applied]:
        if any(getattr(change, "token", None) == bad for change in changes):
            raise ValueError("unwritable")
        return lifecycle.apply(changes)

    group = GroupCommit(picky)
    answers = [group.submit(lifecycle.Fail(token, FailureReason.ENGINE_ERROR, "no")) for _, token in jobs]
    group.close()

    assert [type(answer.error(10)) for answer in answers] == [type(None), ValueError, type(None)]
    assert answers[0].result().status is JobStatus.FAILED


def test_closing_commits_what_is_queued_and_then_takes_no_more(database: None, recorder: Recorder) -> None:
    group = GroupCommit(recorder)
    jobs = [factories.make_job() for _ in range(5)]
    answers = [group.submit(lifecycle.Cancel(job.id)) for job in jobs]
    group.close()
    group.close()

    assert all(answer.result(0).moved for answer in answers)
    with pytest.raises(RuntimeError):
        group.submit(lifecycle.Cancel(jobs[0].id))


@pytest.mark.once
def test_a_lock_that_another_holds_is_looked_for_often_and_is_no_failure(
    commit: GroupCommit, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    job = factories.make_job()
    with transaction.atomic():
        answer = commit.submit(lifecycle.Cancel(job.id))
        until(lambda: len(recorder.batches) > 3)
        assert not answer.is_there
    assert answer.result(10).moved
    assert caplog.messages == []
