"""What is asked of admission, and the answer: frozen values between submission, decisions and the broker. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from inference.capacity import Weightier
from inference.charges import FREE, UnitCosts
from inference.estimates import Demand, Learned
from inference.limits import (
    NO_KEY_LIMITS,
    NO_TENANT_LIMITS,
    Budget,
    KeyLimits,
    ModelLimits,
    QueueCaps,
    TenantLimits,
)
from inference.routing import QueueName


class Reason(StrEnum):
    """Which limit refuses: the first of these that does. Each fails closed."""

    REQUESTS_PER_SECOND = "requests_per_second"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    TENANT_QUEUED_JOBS = "tenant_queued_jobs"
    TENANT_UNFINISHED_JOBS = "tenant_unfinished_jobs"
    SPENT_UNKNOWN = "spent_unknown"
    """Of a budget it is not known what was spent."""
    BUDGET = "budget"
    """In billionths of the currency, of what is spent and what unfinished jobs are expected to cost."""
    QUEUE_JOBS = "queue_jobs"
    QUEUE_TOKENS = "queue_tokens"
    QUEUE_BYTES = "queue_bytes"
    MODEL_BYTES = "model_bytes"
    WAIT = "wait"
    """Expected, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTerms:
    """One queue that is asked, and what it goes by."""

    name: str
    caps: QueueCaps
    max_wait_ms: int | None = None
    """None: whatever wait is expected."""
    slots: int
    """Jobs that its fleet runs at once, at least one."""
    own_slots: int | None = None
    """Those that caps in flight leave to its own jobs, at least one; None: as many."""
    prompt_ms: float
    """Service time of a prompt token."""
    output_ms: float
    expected_tokens: int
    """Output of a job where nothing was learned of its owner."""
    learns: bool = True
    """What was learned of the owner holds instead of `expected_tokens`."""
    model_bytes: int | None = None
    """Most bytes that may wait in all queues of the model, for this tier."""
    held_jobs: int = 0
    """Most that may be on hold; 0: none of these jobs may."""
    may_spill: bool = False
    """Full, it takes them as spilled."""
    line: tuple[str, ...]
    """Queues whose jobs it waits behind: of its own tier, itself too."""
    before: tuple[Weightier, ...] = ()
    """Tiers as heavy as its own or heavier, whose jobs go before it by weight."""
    others: tuple[str, ...] = ()
    """The other queues of the model."""
    costs: UnitCosts = FREE


@dataclass(frozen=True, slots=True)
class Wanted:
    """One job that asks for room."""

    job_id: UUID
    queue: str
    prompt_tokens: int
    most_tokens: int
    """Output that its `max_tokens` and the model allow."""
    bytes: int
    """Of its request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A job that asks to be taken."""

    job_id: UUID
    queue: QueueName
    model: ModelLimits
    demand: Demand
    request_bytes: int
    may_be_spilled: bool = False
    """Its client does not wait for the answer."""
    may_be_held: bool = False
    """Its client waits for the answer."""
    expected_tokens: int | None = None
    """Output, where it is known from before; else it is estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Jobs of one caller that are taken together or not at all."""

    tenant: str
    owner: str
    """`estimates.owner`: whose outputs they will resemble, and whom a key's limits count."""
    key: KeyLimits = NO_KEY_LIMITS
    limits: TenantLimits = NO_TENANT_LIMITS
    ticket: str = ""
    """By which a request is known again that comes back when it was told to; empty: any of its owner's is."""
    budgets: Sequence[Budget] = ()
    """Those that its cost must keep to."""
    month: str = ""
    """Whose spending counts, as `2026-11`."""
    queues: Sequence[QueueTerms]
    jobs: Sequence[Wanted]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What refuses."""

    reason: Reason
    name: str
    """Of the queue, tenant or key."""
    limit: int
    value: int
    """As it is, without what is asked for; of WAIT the wait that is expected."""
    asked: int
    retry_ms: int | None = None
    """When it may fit; None: nobody can tell, or never."""
    spent: int = 0
    """Of BUDGET, what ended jobs cost."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a rate has counted."""

    requests: int
    tokens: int
    clear_ms: int
    """Until it has counted nothing, if nothing more comes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of it."""

    refusal: Refusal | None
    """None: all are taken."""
    learned: Mapping[str, Learned] = field(default_factory=dict)
    """By queue, what estimates of its jobs go by."""
    of_key: Usage | None = None
    """Of the last minute, with these jobs if they are taken; None where there is no such limit."""
    of_tenant: Usage | None = None
    held: Mapping[str, Refusal] = field(default_factory=dict)
    """Queues that took the jobs on hold, and what they would have refused for."""
    spilled: frozenset[str] = frozenset()
    """Queues that took them as spilled."""

    @property
    def accepted(self) -> bool:
        """Whether all jobs are taken."""
        return self.refusal is None
