"""What a change makes of a job, as pure code: a row and a change in, the new row and its event out."""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from inference.charges import Used
from inference.lifecycle.changes import Account, Cancel, Change, Expire, Fail, Feed, Release, Retry, Start, Succeed
from inference.retries import RULES
from inference.states import HOLD_ENDED, RETRYABLE, WAITING, FailureReason, JobEventKind, JobStatus, ReleaseReason

MAX_ENGINE_CRASHES: Final = 3
"""A job in flight at this many crashes of its engine is taken to cause them."""


ON_HOLD: Final = "on hold"
"""Detail of its events."""


class Row(NamedTuple):
    """The columns of a job that decide, and those that change. A tuple: every change of every job makes two."""

    status: JobStatus
    claim_id: uuid.UUID | None
    worker: str
    attempts: int
    engine_crashes: int
    queued_at: datetime
    start_deadline_at: datetime
    started_at: datetime | None
    first_token_at: datetime | None
    finished_at: datetime | None
    prompt_tokens: int
    output_tokens: int | None
    finish_reason: str
    error_code: str
    error_message: str
    result: str
    used_prompt_tokens: int = 0
    used_output_tokens: int = 0
    engine_ms: int = 0
    cost_nano: int = 0
    hold_ends_at: datetime | None = None
    """None unless it is on hold: it waits, and has not started yet."""

    @property
    def may_wait(self) -> timedelta:
        """How long it may wait before it starts."""
        return (self.hold_ends_at or self.start_deadline_at) - self.queued_at

    @property
    def used(self) -> Used:
        """What all its runs used that count."""
        return Used(self.used_prompt_tokens, self.used_output_tokens, self.engine_ms)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a decision needs beside the row."""

    now: datetime
    max_attempts: int
    """Of the job's tier."""
    ready_since: datetime | None
    """Since when the clock of the queue's start deadlines runs; None: it stands (`inference.deadlines`)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A decided change: the row as it becomes, and the event that says so."""

    row: Row
    kind: JobEventKind | None
    """None: not worth a line of its history."""
    detail: str = ""


def decide(row: Row, change: Change, terms: Terms) -> Step | None:
    """Return the step that the change makes, or None: the row is in another state, or another's."""
    return _RULES[type(change)](row, change, terms)


def is_overdue(row: Row, *, now: datetime, ready_since: datetime | None) -> bool:
    """Whether it must not start any more.

    Its hold is over, or its start deadline has passed: that one's clock runs since `ready_since`; None: it stands.
    """
    if row.hold_ends_at is not None and now >= row.hold_ends_at:
        return True
    if now < row.start_deadline_at or ready_since is None:
        return False
    return now >= max(row.queued_at, ready_since) + (row.start_deadline_at - row.queued_at)


def _feed(row: Row, _change: Feed, _terms: Terms) -> Step | None:
    if row.status is not JobStatus.SPILLED:
        return None
    return Step(row._replace(status=JobStatus.QUEUED), JobEventKind.QUEUED, "its queue has room")


def _start(row: Row, change: Start, terms: Terms) -> Step | None:
    if row.status is not JobStatus.QUEUED:
        return None
    is_young = change.waited is not None and change.waited < row.may_wait
    if not is_young and is_overdue(row, now=terms.now, ready_since=terms.ready_since):
        return _expired(row, terms)
    started = row._replace(
        status=JobStatus.RUNNING,
        claim_id=change.token.claim_id,
        worker=change.worker,
        attempts=row.attempts + 1,
        started_at=terms.now,
        hold_ends_at=None,
    )
    return Step(started, JobEventKind.RUNNING)


def _succeed(row: Row, change: Succeed, terms: Terms) -> Step | None:
    if not _holds(row, change):
        return None
    prompt_tokens = row.prompt_tokens if change.prompt_tokens is None else change.prompt_tokens
    row = _with_used(row, prompt_tokens, change.output_tokens or 0, change.engine_seconds)
    done = row._replace(
        status=JobStatus.SUCCEEDED,
        finished_at=terms.now,
        first_token_at=change.first_token_at,
        prompt_tokens=prompt_tokens,
        output_tokens=change.output_tokens,
        finish_reason=change.finish_reason[:32],
        result=change.result,
    )
    return Step(done, JobEventKind.SUCCEEDED)


def _fail(row: Row, change: Fail, terms: Terms) -> Step | None:
    if not _holds(row, change):
        return None
    if change.reason is not FailureReason.BAD_REQUEST:  # that the engine refused: it did nothing for it
        row = _with_call(row, change)
    return _failed(row, change.reason, change.message, terms)


def _release(row: Row, change: Release, terms: Terms) -> Step | None:
    if not _holds(row, change):
        return None
    rule = RULES[change.reason]
    attempts = row.attempts if rule.costs_attempt else row.attempts - 1
    row = row._replace(attempts=attempts, engine_crashes=row.engine_crashes + rule.counts_crash)
    if rule.counts_crash and row.engine_crashes >= MAX_ENGINE_CRASHES:
        message = f"The engine crashed {row.engine_crashes} times while it ran this job."
        return _failed(row, FailureReason.ENGINE_CRASH, message, terms)
    if rule.costs_attempt and row.attempts >= terms.max_attempts:
        message = f"The worker died while it ran this job, {row.attempts} times of {terms.max_attempts} allowed."
        return _failed(row, FailureReason.ATTEMPTS_EXHAUSTED, message, terms)
    is_rescue = change.reason is ReleaseReason.LEASE_EXPIRED
    kind = JobEventKind.RESCUED if is_rescue else JobEventKind.RELEASED
    return Step(_queued_again(row, terms), kind, str(change.reason))


def _cancel(row: Row, change: Cancel, terms: Terms) -> Step | None:
    if row.status not in {*WAITING, JobStatus.RUNNING}:
        return None
    ended = row._replace(status=JobStatus.CANCELLED, finished_at=terms.now, hold_ends_at=None)
    return Step(ended, JobEventKind.CANCELLED, change.detail)


def _account(row: Row, change: Account, terms: Terms) -> Step | None:
    if row.status is JobStatus.RUNNING:
        return _release(row, Release(change.token, ReleaseReason.DRAIN), terms)
    # With a count of output it has been accounted for, should this be asked twice.
    is_owed = row.status is JobStatus.CANCELLED and row.output_tokens is None
    if not is_owed or row.claim_id != change.token.claim_id:
        return None
    return Step(_with_call(row, change)._replace(output_tokens=change.output_tokens), None)


def _expire(row: Row, _change: Expire, terms: Terms) -> Step | None:
    overdue = is_overdue(row, now=terms.now, ready_since=terms.ready_since)
    return _expired(row, terms) if row.status in WAITING and overdue else None


def _retry(row: Row, _change: Retry, terms: Terms) -> Step | None:
    if row.status not in RETRYABLE:
        return None
    anew = _queued_again(row, terms)._replace(
        attempts=0,
        engine_crashes=0,
        finished_at=None,
        output_tokens=None,
        error_code="",
        error_message="",
    )
    return Step(anew, JobEventKind.QUEUED, "retried by hand")


def _holds(row: Row, change: Succeed | Fail | Release) -> bool:
    """Whether the change comes from the claim that holds the job: the fence of every finish."""
    return row.status is JobStatus.RUNNING and row.claim_id == change.token.claim_id


def _with_call(row: Row, change: Fail | Account) -> Row:
    """Add a call without a result; one that did not reach the engine used nothing."""
    if change.engine_seconds <= 0:
        return row
    return _with_used(row, row.prompt_tokens, change.output_tokens, change.engine_seconds)


def _with_used(row: Row, prompt_tokens: int, output_tokens: int, engine_seconds: float) -> Row:
    return row._replace(
        used_prompt_tokens=row.used_prompt_tokens + prompt_tokens,
        used_output_tokens=row.used_output_tokens + output_tokens,
        engine_ms=row.engine_ms + max(0, round(engine_seconds * 1000)),
    )


def _queued_again(row: Row, terms: Terms) -> Row:
    # The deadline's clock starts anew: a job that ran was on time, and must not expire because its worker died.
    allowed = row.start_deadline_at - row.queued_at
    return row._replace(
        status=JobStatus.QUEUED,
        claim_id=None,
        worker="",
        started_at=None,
        queued_at=terms.now,
        start_deadline_at=terms.now + allowed,
    )


def _failed(row: Row, reason: FailureReason, message: str, terms: Terms) -> Step:
    ended = row._replace(
        status=JobStatus.FAILED, finished_at=terms.now, error_code=str(reason), error_message=message
    )
    return Step(ended, JobEventKind.FAILED, str(reason))


def _expired(row: Row, terms: Terms) -> Step:
    ended = row._replace(
        status=JobStatus.EXPIRED,
        finished_at=terms.now,
        error_code=str(JobStatus.EXPIRED),
        error_message="Not started by its start deadline.",
    )
    return Step(ended, JobEventKind.EXPIRED) if row.hold_ends_at is None else _refused(ended)


def _refused(ended: Row) -> Step:
    """Say of a job that expired that its queue was full all the time."""
    message = f"Its queue was full, and it did not start in the {ended.may_wait.total_seconds():g} s of its hold."
    refused = ended._replace(error_code=HOLD_ENDED, error_message=message, hold_ends_at=None)
    return Step(refused, JobEventKind.EXPIRED, ON_HOLD)


_RULES: Final[Mapping[type, Callable[[Row, Any, Terms], Step | None]]] = {
    Feed: _feed,
    Start: _start,
    Succeed: _succeed,
    Fail: _fail,
    Release: _release,
    Cancel: _cancel,
    Account: _account,
    Expire: _expire,
    Retry: _retry,
}
