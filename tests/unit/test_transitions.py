"""The pure rules of a job's life."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inference import lifecycle
from inference.broker import Token
from inference.lifecycle import transitions
from inference.states import (
    RETRYABLE,
    TERMINAL,
    TRANSITIONS,
    WAITING,
    FailureReason,
    JobEventKind,
    JobStatus,
    ReleaseReason,
)
from tests import factories

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
JOB = uuid.uuid4()
TOKEN = Token(JOB, uuid.uuid4())
OTHER = Token(JOB, uuid.uuid4())
CHANGES: list[lifecycle.Change] = [
    lifecycle.Feed(JOB),
    lifecycle.Start(TOKEN, "worker-1"),
    factories.make_success(TOKEN),
    lifecycle.Fail(TOKEN, FailureReason.ENGINE_ERROR, "no"),
    *[lifecycle.Release(TOKEN, reason) for reason in ReleaseReason],
    lifecycle.Cancel(JOB),
    lifecycle.Expire(JOB),
]


def make_row(status: JobStatus = JobStatus.QUEUED, **overrides: Any) -> transitions.Row:
    running = status not in WAITING
    values: dict[str, Any] = {
        "status": status,
        "claim_id": TOKEN.claim_id if running else None,
        "worker": "worker-1" if running else "",
        "attempts": int(running),
        "engine_crashes": 0,
        "queued_at": NOW - timedelta(seconds=10),
        "start_deadline_at": NOW + timedelta(seconds=50),
        "started_at": NOW if running else None,
        "first_token_at": None,
        "finished_at": NOW if status in TERMINAL else None,
        "prompt_tokens": 10,
        "output_tokens": None,
        "finish_reason": "",
        "error_code": "",
        "error_message": "",
        "result": "",
    }
    return transitions.Row(**values | overrides)


def decide(row: transitions.Row, change: lifecycle.Change, **terms: Any) -> transitions.Step | None:
    values: dict[str, Any] = {"now": NOW, "max_attempts": 3, "ready_since": LONG_AGO}
    return transitions.decide(row, change, transitions.Terms(**values | terms))


def moved(row: transitions.Row, change: lifecycle.Change, **terms: Any) -> transitions.Step:
    step = decide(row, change, **terms)
    assert step is not None
    return step


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize("status", list(JobStatus))
def test_a_change_moves_only_along_the_table_and_names_it_in_its_event(
    status: JobStatus, change: lifecycle.Change
) -> None:
    row = make_row(status, attempts=3, start_deadline_at=NOW - timedelta(seconds=1))
    step = decide(row, change)

    if step is not None:
        assert step.row.status in TRANSITIONS[status]
        assert step.row.status in TERMINAL or step.row.finished_at is None
        assert step.row.status not in TERMINAL or step.row.finished_at == NOW


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_nothing_a_worker_or_client_says_moves_a_finished_job(status: JobStatus, change: lifecycle.Change) -> None:
    assert decide(make_row(status), change) is None


def test_a_start_takes_the_claim_and_counts_an_attempt() -> None:
    step = moved(make_row(), lifecycle.Start(TOKEN, "worker-1"))

    assert (step.row.status, step.row.claim_id, step.row.worker) == (JobStatus.RUNNING, TOKEN.claim_id, "worker-1")
    assert (step.row.attempts, step.row.started_at, step.kind) == (1, NOW, JobEventKind.RUNNING)


@pytest.mark.parametrize(
    "change",
    [
        factories.make_success(OTHER),
        lifecycle.Fail(OTHER, FailureReason.ENGINE_ERROR, "no"),
        lifecycle.Release(OTHER, ReleaseReason.DRAIN),
    ],
    ids=str,
)
def test_a_claim_that_does_not_hold_the_job_changes_nothing(change: lifecycle.Change) -> None:
    assert decide(make_row(JobStatus.RUNNING), change) is None


def test_a_success_keeps_the_answer_and_the_engines_count_of_the_prompt() -> None:
    change = factories.make_success(TOKEN, result="{}", output_tokens=5, finish_reason="length", prompt_tokens=12)
    row = moved(make_row(JobStatus.RUNNING), change).row

    assert (row.result, row.output_tokens, row.finish_reason, row.prompt_tokens) == ("{}", 5, "length", 12)


def test_a_success_without_a_count_keeps_that_of_submission() -> None:
    assert moved(make_row(JobStatus.RUNNING), factories.make_success(TOKEN)).row.prompt_tokens == 10


@pytest.mark.parametrize(
    "reason", [ReleaseReason.DRAIN, ReleaseReason.ENGINE_CRASH, ReleaseReason.ENGINE_UNREACHABLE]
)
def test_a_release_gives_the_attempt_back(reason: ReleaseReason) -> None:
    step = moved(make_row(JobStatus.RUNNING, attempts=3), lifecycle.Release(TOKEN, reason))

    assert (step.row.status, step.row.attempts, step.row.claim_id) == (JobStatus.QUEUED, 2, None)
    assert (step.kind, step.detail) == (JobEventKind.RELEASED, str(reason))


def test_a_rescue_does_not_give_the_attempt_back() -> None:
    step = moved(make_row(JobStatus.RUNNING, attempts=2), lifecycle.Release(TOKEN, ReleaseReason.LEASE_EXPIRED))

    assert (step.row.status, step.row.attempts, step.kind) == (JobStatus.QUEUED, 2, JobEventKind.RESCUED)


def test_a_rescue_after_the_last_attempt_fails_the_job() -> None:
    step = moved(make_row(JobStatus.RUNNING, attempts=3), lifecycle.Release(TOKEN, ReleaseReason.LEASE_EXPIRED))

    assert (step.row.status, step.row.error_code) == (JobStatus.FAILED, "attempts_exhausted")
    assert step.row.error_message == "The worker died while it ran this job, 3 times of 3 allowed."


def test_the_attempts_allowed_are_those_of_the_terms() -> None:
    lost = lifecycle.Release(TOKEN, ReleaseReason.LEASE_EXPIRED)

    assert moved(make_row(JobStatus.RUNNING), lost, max_attempts=1).row.status is JobStatus.FAILED
    assert moved(make_row(JobStatus.RUNNING, attempts=4), lost, max_attempts=5).row.status is JobStatus.QUEUED


def test_engine_crashes_are_counted_and_the_third_fails_the_job() -> None:
    crash = lifecycle.Release(TOKEN, ReleaseReason.ENGINE_CRASH)
    second = moved(make_row(JobStatus.RUNNING, engine_crashes=1), crash).row
    third = moved(make_row(JobStatus.RUNNING, engine_crashes=2), crash).row

    assert (second.status, second.engine_crashes, second.attempts) == (JobStatus.QUEUED, 2, 0)
    assert (third.status, third.error_code) == (JobStatus.FAILED, "engine_crash")


def test_a_job_that_goes_back_gets_its_whole_start_deadline_again() -> None:
    row = make_row(JobStatus.RUNNING, queued_at=LONG_AGO, start_deadline_at=LONG_AGO + timedelta(seconds=30))
    back = moved(row, lifecycle.Release(TOKEN, ReleaseReason.DRAIN)).row

    assert (back.queued_at, back.start_deadline_at) == (NOW, NOW + timedelta(seconds=30))


def test_a_start_past_the_deadline_expires_the_job_instead() -> None:
    late = make_row(start_deadline_at=NOW - timedelta(seconds=1))
    step = moved(late, lifecycle.Start(TOKEN, "worker-1"))

    assert (step.row.status, step.row.attempts, step.kind) == (JobStatus.EXPIRED, 0, JobEventKind.EXPIRED)


@pytest.mark.parametrize(("waited_seconds", "status"), [(29, JobStatus.RUNNING), (30, JobStatus.EXPIRED)])
def test_a_job_that_is_late_by_a_wrong_clock_starts(waited_seconds: int, status: JobStatus) -> None:
    late = make_row(queued_at=LONG_AGO, start_deadline_at=LONG_AGO + timedelta(seconds=30))
    step = moved(late, lifecycle.Start(TOKEN, "worker-1", timedelta(seconds=waited_seconds)))

    assert step.row.status is status


def test_a_fed_job_keeps_its_deadline_and_one_that_is_not_spilled_is_not_fed() -> None:
    row = make_row(JobStatus.SPILLED)

    assert moved(row, lifecycle.Feed(JOB)).row == row._replace(status=JobStatus.QUEUED)
    assert decide(make_row(), lifecycle.Feed(JOB)) is None


def test_a_spilled_job_is_not_started_but_cancelled_or_expired() -> None:
    row = make_row(JobStatus.SPILLED, start_deadline_at=NOW - timedelta(seconds=1))

    assert decide(row, lifecycle.Start(TOKEN, "worker-1")) is None
    assert moved(row, lifecycle.Cancel(JOB)).row.status is JobStatus.CANCELLED
    assert moved(row, lifecycle.Expire(JOB)).row.status is JobStatus.EXPIRED


def test_no_deadline_passes_while_no_worker_is_ready() -> None:
    late = make_row(start_deadline_at=NOW - timedelta(seconds=1))

    assert decide(late, lifecycle.Expire(JOB), ready_since=None) is None
    assert moved(late, lifecycle.Start(TOKEN, "w"), ready_since=None).row.status is JobStatus.RUNNING


def test_a_hold_ends_on_time_whether_or_not_a_worker_is_ready() -> None:
    on_hold = make_row(hold_ends_at=NOW)
    for change in (lifecycle.Expire(JOB), lifecycle.Start(TOKEN, "w")):
        step = moved(on_hold, change, ready_since=None)
        assert (step.row.status, step.row.error_code, step.detail) == ("expired", "queue_full", "on hold")
        assert "in the 10 s of its hold" in step.row.error_message
    assert decide(on_hold, lifecycle.Expire(JOB), now=NOW - timedelta(milliseconds=1)) is None


@pytest.mark.parametrize("change", [lifecycle.Start(TOKEN, "w"), lifecycle.Cancel(JOB)], ids=str)
def test_whatever_else_becomes_of_it_a_job_is_on_hold_no_longer(change: lifecycle.Change) -> None:
    assert moved(make_row(hold_ends_at=NOW + timedelta(seconds=1)), change).row.hold_ends_at is None


def test_the_deadlines_clock_starts_when_a_worker_gets_ready() -> None:
    row = make_row(queued_at=NOW - timedelta(seconds=600), start_deadline_at=NOW - timedelta(seconds=540))

    assert decide(row, lifecycle.Expire(JOB), ready_since=NOW - timedelta(seconds=59)) is None
    assert moved(row, lifecycle.Expire(JOB), ready_since=NOW - timedelta(seconds=60)).row.status == "expired"


@pytest.mark.parametrize("status", sorted(RETRYABLE))
def test_a_retry_by_hand_begins_anew(status: JobStatus) -> None:
    spent = make_row(status, attempts=3, engine_crashes=3, error_code="x", error_message="y")
    step = moved(spent, lifecycle.Retry(JOB))

    assert (step.row.status, step.row.attempts, step.row.engine_crashes) == (JobStatus.QUEUED, 0, 0)
    assert (step.row.finished_at, step.row.error_code, step.row.error_message) == (None, "", "")


@pytest.mark.parametrize("status", sorted(set(JobStatus) - RETRYABLE))
def test_a_retry_touches_no_job_that_lives_or_succeeded(status: JobStatus) -> None:
    assert decide(make_row(status), lifecycle.Retry(JOB)) is None
