"""What goes into the broker and comes out of it: frozen values. Times are the Redis server's clock, in ms."""

import enum
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple, Self
from uuid import UUID

CHUNK: Final = "chunk"
"""Output, as the engine's bytes."""
END: Final = "end"
"""The output of this claim is complete."""
INTERRUPTED: Final = "interrupted"
"""The output of this claim will never be complete; the job went back to its queue."""
GAP: Final = "gap"
"""Output before the next event is lost to who reads: it was longer behind than the job's stream goes back."""


class Told(enum.IntEnum):
    """What became of a piece of output."""

    REFUSED = 0
    """The claim is not ours any more, or cancelled."""
    HEARD = 1
    FORGOTTEN = 2
    """Redis lost what this claim said before, or its lease: a stream that went on would have a hole."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A job to be queued. A job published again passes the arrival it had first."""

    job_id: UUID
    queue: str
    """`<model>.<tier>.<length>`, made by `inference.routing`."""
    tenant: str
    prompt_tokens: int
    expected_tokens: int
    estimate: float
    """Service seconds: what fairness charges."""
    arrival_ms: int | None = None
    """None: now, by the server's clock."""
    mailbox: str = ""
    """Stream of the process that waits for this job; empty if none does."""
    streamed: bool = False
    tenant_weight: float = 1.0
    request_bytes: int = 0
    alone: bool = False
    """Must run alone (`retries.runs_alone`): it is in no order, and waits for a worker that takes it so."""
    counts: bool = True
    """Its start is held against its tier's objective: not of one that started before."""


@dataclass(frozen=True, slots=True)
class Token:
    """One hold on one job: a lease is renewed, acked or released only with the claim that took it."""

    job_id: UUID
    claim_id: UUID

    @property
    def tag(self) -> str:
        """The Celery task id and delivery tag of this hold."""
        return f"{self.job_id}:{self.claim_id}"

    @classmethod
    def parse(cls, tag: str) -> Self:
        """Read a `tag`. Raises ValueError if it is none."""
        job_id, _, claim_id = tag.partition(":")
        return cls(UUID(job_id), UUID(claim_id))


class Ending(NamedTuple):
    """How a claim ended that is over for good."""

    token: Token
    status: str
    used: float | None = None
    """What it took, in service seconds as estimates have them; None: as much as estimated."""
    tokens: int | None = None
    """Tokens of prompt and output that it used; None: as many as reserved."""
    cost_nano: int = 0
    """What it cost in billionths of the currency, which the database has by now."""
    month: str = ""
    """In which it did, as `2026-11`."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took."""

    token: Token
    queue: str
    tenant: str
    """Empty for a Celery task that is not a job."""
    prompt_tokens: int
    expected_tokens: int
    estimate: float
    arrival_ms: int
    claimed_ms: int
    """As the arrival, by the server's clock."""
    streamed: bool
    body: bytes
    """The whole message of a Celery task that is not a job; empty for a job."""
    mailbox: str = ""
    watched: bool = False
    """Somebody follows the job's states, so that its start is worth an event."""
    is_parked: bool = False
    """Does not fit yet: the worker drains until it does."""
    is_alone: bool = False
    """Fits beside nothing. Parked until nothing else runs."""

    @property
    def waited(self) -> timedelta:
        """How long it had been there when it was taken."""
        return timedelta(milliseconds=self.claimed_ms - self.arrival_ms)

    @property
    def kv_tokens(self) -> int:
        """KV cache that the job is expected to fill, in tokens."""
        return self.prompt_tokens + self.expected_tokens


@dataclass(frozen=True, slots=True)
class Claims:
    """What one claim brought."""

    jobs: list[Claimed]
    again_ms: int | None = None
    """Ask again after so long, since something waits for time to pass; None: the bell or more credit says when."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    """One queue now."""

    queue: str
    jobs: int
    tokens: int
    """Sum of prompt and expected tokens waiting."""
    oldest_arrival_ms: int | None
    leases: int
    bytes: int = 0
    """Of the requests that wait."""
    work_seconds: float = 0.0
    """What those that wait are expected to take, each for itself."""
    on_hold: int = 0
    """Of those that wait, taken beyond the caps for a while."""
    spilled: int = 0
    """Kept out of it while it is full."""
    claims_per_second: float = 0.0
    """Over the last half minute: how fast it drains."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """What a renewal found: those in neither set are ours for another lease."""

    lost: frozenset[Token]
    """Absent, queued, or held by another claim."""
    cancelled: frozenset[Token]
    """Still ours to ack, but not to finish."""


@dataclass(frozen=True, slots=True)
class DueLease:
    """A lease that ran out: its row moves first, then `release` or `ack` with its token."""

    token: Token
    queue: str
    worker: str
    failures: int
    """How often it came back after one before."""
    body: bytes = field(default=b"", repr=False)
    """The message of a Celery task that is not a job; empty for a job."""

    @property
    def is_task(self) -> bool:
        """Whether it is a Celery task that is not a job: it has no row."""
        return bool(self.body)


@dataclass(frozen=True, slots=True)
class Event:
    """One step or piece of output of a job; `id` orders them within the job, as Redis Stream ids do."""

    id: str
    job_id: UUID
    kind: str
    """CHUNK, END, INTERRUPTED or a JobStatus value."""
    claim_id: UUID | None
    data: bytes
