"""What may be asked of a job, and the answer: frozen values that cross threads and processes."""

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inference.broker.types import Token
from inference.states import Endpoint, FailureReason, JobStatus, ReleaseReason


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that was admitted and has no row yet."""

    id: uuid.UUID
    tenant: str
    api_key_id: str | None
    model: str
    tier: str
    length: str
    endpoint: Endpoint
    request: str = field(repr=False)
    """The body for the engine, as JSON text; empty if it is in the storage (`inference.bodies`)."""
    request_bytes: int = 0
    streamed: bool
    prompt_tokens: int
    expected_tokens: int
    estimate_seconds: float
    created_at: datetime
    start_deadline_at: datetime
    is_spilled: bool = False
    """Its queue is full: the feeder brings it there."""
    hold_ends_at: datetime | None = None
    """Until when it may be on hold; None: its queue was not full."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Its queue has room: `spilled → queued`. Its start deadline stays."""

    job_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Start:
    """A claim begins: `queued → running`, one attempt counted. A job past its start deadline expires instead."""

    token: Token
    worker: str
    waited: timedelta | None = None
    """Since its arrival, by the broker's clock alone; None if unknown. A job that waited for less than it may does
    not expire, whatever the clocks of those who wrote its row and who starts it say."""

    @property
    def job_id(self) -> uuid.UUID:
        """The job."""
        return self.token.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Succeed:
    """The engine answered: `running → succeeded`, if the claim still holds the job."""

    token: Token
    result: str = field(repr=False)
    """The engine's whole answer, as JSON text."""
    output_tokens: int | None
    finish_reason: str
    prompt_tokens: int | None = None
    """As the engine counted; None keeps the count of submission."""
    first_token_at: datetime | None = None
    engine_seconds: float = 0.0
    """Time in the engine."""

    @property
    def job_id(self) -> uuid.UUID:
        """The job."""
        return self.token.job_id


@dataclass(frozen=True, slots=True)
class Fail:
    """The attempt ended for good: `running → failed`, if the claim still holds the job."""

    token: Token
    reason: FailureReason
    message: str = field(repr=False)
    """What the client may read. Never a prompt."""
    output_tokens: int = 0
    """What the engine had brought by then, as far as that is known."""
    engine_seconds: float = 0.0
    """Time in the engine; 0: it did not get there."""

    @property
    def job_id(self) -> uuid.UUID:
        """The job."""
        return self.token.job_id


@dataclass(frozen=True, slots=True)
class Release:
    """The claim ends without a result: `running → queued`, if it still holds the job.

    What its reason means is in `inference.retries`. After the last allowed attempt, or the third engine crash, the
    job is `failed` instead.
    """

    token: Token
    reason: ReleaseReason

    @property
    def job_id(self) -> uuid.UUID:
        """The job."""
        return self.token.job_id


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client, an admin or a disconnect ends it: `queued | spilled | running → cancelled`."""

    job_id: uuid.UUID
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Account:
    """The last word of a claim whose job was cancelled meanwhile: what it had used. Moves no status.

    Should the job still run under this claim, the claim ends as by a release with `DRAIN`: it must not be stuck.
    """

    token: Token
    output_tokens: int = 0
    """What the engine had brought by then, as far as that is known."""
    engine_seconds: float = 0.0
    """Time in the engine; 0: it did not get there."""

    @property
    def job_id(self) -> uuid.UUID:
        """The job."""
        return self.token.job_id


@dataclass(frozen=True, slots=True)
class Expire:
    """Not started in time: `queued | spilled → expired`, if its start deadline has passed."""

    job_id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Retry:
    """By hand: `failed | cancelled | expired → queued`, attempts and start deadline anew."""

    job_id: uuid.UUID


Change = Feed | Start | Succeed | Fail | Release | Cancel | Account | Expire | Retry


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a worker needs to run a job, read in the transaction that started it."""

    endpoint: Endpoint
    request: str = field(repr=False)
    """The body for the engine, as JSON text; empty if it is in the storage (`inference.bodies`)."""
    api_key_id: str | None
    """Whose outputs it is learned from; None: a dashboard user's."""
    model: str
    tier: str
    streamed: bool
    attempt: int
    """From 1."""
    engine_crashes: int
    """At two, the job runs alone."""
    created_at: datetime
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What became of one change.

    After a worker's change: `status` QUEUED → `broker.release(token)`; terminal → `broker.ack(token, status=…)`;
    None → the row is gone, `broker.ack` too. A Start that did not move is never handed to the engine.
    """

    job_id: uuid.UUID
    moved: bool
    """Whether this change did it. A Start repeated under the claim that already holds the job counts as moved."""
    status: JobStatus | None
    """Where the job is after the change, moved or not; None if there is no such job."""
    claim_id: uuid.UUID | None = None
    """The claim that held the job before the change: whose engine request a cancel must abort."""
    cost_nano: int = 0
    """What the change added to the cost of the job, in billionths of the currency: the budgets' part of an ack."""
    engine_crashes: int = 0
    """After the change: the broker must know a job that has to run alone."""
    work: Work | None = field(default=None, repr=False)
    """Of a Start that moved."""
