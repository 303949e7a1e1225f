"""What one claim asks, takes and looks at: plain values. Pure; `inference.turns` decides over them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inference import levelling
from inference.guards import ANY_SIZE, NO_LOAD, Credit, Load, Room, TierTerms
from inference.levelling import Queue
from inference.lines import Tier, Waiting


@dataclass(frozen=True, slots=True)
class Ask:
    """One worker's claim."""

    queues: frozenset[Queue]
    credit: Credit
    limit: int
    tiers: Mapping[str, TierTerms] = field(default_factory=dict)
    paused: frozenset[Queue] = frozenset()
    larger: frozenset[Queue] = frozenset()
    """Those that a worker with more KV serves too: what can never fit here is left to it."""
    whole_tokens: int = ANY_SIZE
    caps: tuple[tuple[frozenset[Queue], int], ...] = ()
    load: Load = NO_LOAD
    worker: str = ""
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """What a claim took, in order."""

    jobs: list[bytes]
    parked: bytes | None = None
    """The last of them, if it does not fit yet."""
    again_ms: int | None = None
    is_alone: bool = False
    """Whether the parked one is so since it must run alone."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A running job: by which weights it was charged; by none in its tier if the claim made no choice there."""

    queue: Queue
    tenant_weight: float
    tier_weight: float | None
    is_alone: bool = False
    """Must run alone: charged to nobody."""


@dataclass(slots=True)
class State:
    """What is known of a model between claims."""

    weights: Mapping[str, float]
    tiers: dict[str, Tier] = field(default_factory=dict)
    leased: dict[bytes, Lease] = field(default_factory=dict)
    unfit: dict[bytes, int] = field(default_factory=dict)
    """Waiting job -> since when it fits no asking worker."""
    alone: dict[bytes, Waiting] = field(default_factory=dict)
    """Waiting jobs that must run alone: they are in no order."""
    came: dict[str, int] = field(default_factory=dict)
    """Tier -> its last publish."""
    gathered: dict[str, float] = field(default_factory=dict)
    """Tier -> the newest arrival among what waited when its gather window ended: none up to it gathers again."""
    workers: dict[str, levelling.Peer] = field(default_factory=dict)

    def tier(self, name: str) -> Tier:
        """Return a tier, made on first use."""
        return self.tiers.setdefault(name, Tier(self.weights))

    def waiting(self, queue: Queue) -> list[Waiting]:
        """Return the jobs that wait in one queue."""
        busy = self.tier(queue[0]).busy.values()
        ordered = [job for jobs in busy for job in jobs.waiting.values() if job.length == queue[1]]
        return ordered + [job for job in self.alone.values() if (job.tier, job.length) == queue]

    def line_up(self, job: Waiting, now_ms: int) -> None:
        """Let a job wait where claims find it."""
        if job.alone:
            self.alone[job.job_id] = job
        else:
            self.tier(job.tier).add(job, now_ms)

    def first_alone(self, tier: str, lengths: Collection[str]) -> list[Waiting]:
        """Return the first of each of `lengths` that must run alone, the oldest first."""
        firsts: dict[str, Waiting] = {}
        for job in sorted(self.alone.values(), key=lambda job: (job.arrival_ms, job.job_id)):
            if job.tier == tier and job.length in lengths:
                firsts.setdefault(job.length, job)
        return list(firsts.values())

    def remove(self, job: Waiting) -> None:
        """Take a waiting job out."""
        if self.alone.pop(job.job_id, None) is None:
            self.tier(job.tier).remove(job)
        self.unfit.pop(job.job_id, None)

    def gathering_ms(self, bid: "Bid", now_ms: int) -> float:
        """Return how long busy workers still wait for more of a tier with work.

        When they need not, all that waits is let go together: what one worker leaves of it, others take.
        """
        if not bid.terms.gather_jobs:
            return 0
        arrivals = [job.arrival_ms for length in bid.open for job in self.waiting((bid.name, length))]
        if min(arrivals) <= self.gathered.get(bid.name, 0):
            return 0
        left_ms = min(arrivals) + round(bid.terms.gather_seconds * 1000) - now_ms
        if len(arrivals) < bid.terms.gather_jobs and left_ms > 0:
            return left_ms
        self.gathered[bid.name] = max(arrivals)
        return 0


@dataclass(slots=True)
class Allowance:
    """How many more jobs may be taken of some queues together."""

    queues: frozenset[Queue]
    left: int


@dataclass(slots=True)
class Bid:
    """A tier during one claim."""

    name: str
    tier: Tier
    terms: TierTerms
    served: frozenset[str]
    open: frozenset[str] = frozenset()
    """Of the lengths served, those that jobs may be taken of."""
    held: frozenset[str] = frozenset()
    """Those that a pause or a cap holds back."""
    share: Room | None = None
    """What it may still take, if that binds now."""
    is_gathering: bool = False
    is_emptying: bool = False
    """A job larger than the share has waited long enough: nothing is taken, until the tier holds nothing here."""
    is_back: bool = False
    """Took no part in choices for a while: now it goes first among equals."""
    tenant: str | None = None
    """Whose turn it is; None if the tier has no work that may be taken."""
    skipped: set[str] = field(default_factory=set)
    """Tenants whose jobs do not fit."""
