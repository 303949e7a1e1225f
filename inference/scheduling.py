"""What runs next: three fair choices at the claim, as pure code over plain data. `docs/scheduling.md` says why.

`inference/broker/lua` makes the same choices from sorted sets, in a time that grows only with the logarithm of the
number of jobs and tenants. This is the policy to read and to test that one against; it looks at every tenant.
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SJF_MS = 1000.0
"""`sjf_weight` 1: a second of estimate orders a job like a second of arrival."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job as far as its place in the order depends on it."""

    job_id: bytes
    tier: str
    tenant: str
    length: str
    arrival_ms: float
    estimate: float
    """Service seconds."""
    kv_tokens: int = 0

    @property
    def order(self) -> tuple[float, bytes]:
        """Place among the tenant's jobs: arrival + `sjf_weight` x estimate, then id."""
        return self.arrival_ms + SJF_MS * self.estimate, self.job_id


@dataclass(frozen=True, slots=True)
class Served:
    """A tier that a claim serves, with its weight now and the lengths taken."""

    tier: str
    weight: float
    lengths: frozenset[str]


@dataclass(frozen=True, slots=True)
class Room:
    """What a claim may take."""

    jobs: int
    kv_tokens: int


@dataclass(slots=True)
class _TenantJobs:
    """One tenant's waiting jobs of one tier: a heap a length. Jobs that left stay in it until they come up."""

    waiting: dict[bytes, Waiting] = field(default_factory=dict)
    heaps: dict[str, list[tuple[float, bytes]]] = field(default_factory=dict)

    def add(self, job: Waiting) -> None:
        self.waiting[job.job_id] = job
        heapq.heappush(self.heaps.setdefault(job.length, []), job.order)

    def head(self, lengths: frozenset[str]) -> Waiting | None:
        """Return the first job among `lengths`."""
        firsts = [first for length in lengths if (first := self._first(length))]
        return min(firsts, key=lambda job: job.order, default=None)

    def _first(self, length: str) -> Waiting | None:
        heap = self.heaps.get(length, [])
        while heap:
            job = self.waiting.get(heap[0][1])
            if job and job.length == length and job.order == heap[0]:
                return job
            heapq.heappop(heap)
        return None


@dataclass(slots=True)
class _Tier:
    """One tier of the model: its pass against other tiers, and its tenants' passes."""

    pass_: float = 0.0
    is_new: bool = False
    """Came back from idle, and was not yet beside others at a claim."""
    passes: dict[str, float] = field(default_factory=dict)
    last_pass: float = 0.0
    """Of the tenant served last, before it was charged."""
    busy: dict[str, _TenantJobs] = field(default_factory=dict)
    sets: set[frozenset[str]] = field(default_factory=set)
    """Lengths that some workers serve together: tenants compete within these."""

    def enter(self, tenant: str, length: str) -> None:
        """Place a tenant that was idle: it saves nothing up, and pays nothing."""
        competing = [lengths for lengths in self.sets if length in lengths]
        rivals = {rival for lengths in competing for rival in self.with_work(lengths)}
        floor = min((self.passes.get(rival, 0.0) for rival in rivals), default=self.last_pass)
        self.passes[tenant] = max(self.passes.get(tenant, 0.0), floor)

    def with_work(self, lengths: frozenset[str]) -> Iterator[str]:
        """Tenants with a waiting job among `lengths`."""
        return (tenant for tenant, jobs in self.busy.items() if jobs.head(lengths))


class FairQueue:
    """The waiting jobs of one model, and the order in which claims take them. Not thread-safe."""

    def __init__(self, tenant_weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(tenant_weights or {})
        self._tiers: dict[str, _Tier] = {}
        self._last_pass = 0.0
        self._jobs: dict[bytes, Waiting] = {}
        self._leased: set[bytes] = set()

    def set_tenant_weight(self, tenant: str, weight: float) -> None:
        """Set a tenant's share from the next claim on; 1 unless set."""
        self.weights[tenant] = weight

    def tier_passes(self) -> dict[str, float]:
        """Return each tier's pass: the service it was charged, by weight; the smallest is next."""
        return {name: tier.pass_ for name, tier in self._tiers.items()}

    def tenant_passes(self, tier: str) -> dict[str, float]:
        """Return the pass of each tenant known in a tier."""
        return dict(self._tiers[tier].passes)

    def publish(self, job: Waiting) -> bool:
        """Queue a job. False: it is queued or leased already, and nothing changes."""
        if job.job_id in self._jobs:
            return False
        self._jobs[job.job_id] = job
        self._enqueue(job)
        return True

    def claim(self, served: Sequence[Served], room: Room) -> list[bytes]:
        """Take jobs in order until room or work runs out. A job that does not fit waits; nothing passes it."""
        for each in served:
            self._tiers.setdefault(each.tier, _Tier()).sets.add(each.lengths)
        rivals = [s for s in served if any(self._tiers[s.tier].with_work(s.lengths))]
        if room.jobs > 0 and len(served) > 1:
            self._place_tiers(rivals)
        taken: list[bytes] = []
        kv_tokens = room.kv_tokens
        while len(taken) < room.jobs and (choice := self._choose(rivals)):
            tier, job = choice
            if job.kv_tokens > kv_tokens:
                break
            kv_tokens -= job.kv_tokens
            self._take(job)
            if len(served) > 1:
                self._charge_tier(tier, job.estimate)
            taken.append(job.job_id)
        return taken

    def ack(self, job_id: bytes) -> bool:
        """Forget a leased job."""
        if job_id not in self._leased:
            return False
        self._leased.remove(job_id)
        del self._jobs[job_id]
        return True

    def release(self, job_id: bytes) -> bool:
        """Put a leased job back, with its first arrival. What it was charged stays charged."""
        if job_id not in self._leased:
            return False
        self._leased.remove(job_id)
        self._enqueue(self._jobs[job_id])
        return True

    def cancel(self, job_id: bytes) -> bool:
        """Take a waiting job out; a leased one is its worker's to ack."""
        job = self._jobs.get(job_id)
        if job is None or job_id in self._leased:
            return False
        self._dequeue(job)
        del self._jobs[job_id]
        return True

    def _enqueue(self, job: Waiting) -> None:
        tier = self._tiers.setdefault(job.tier, _Tier())
        tier.is_new = tier.is_new or not tier.busy
        if job.tenant not in tier.busy:
            tier.enter(job.tenant, job.length)
            tier.busy[job.tenant] = _TenantJobs()
        tier.busy[job.tenant].add(job)

    def _dequeue(self, job: Waiting) -> None:
        busy = self._tiers[job.tier].busy
        del busy[job.tenant].waiting[job.job_id]
        if not busy[job.tenant].waiting:
            del busy[job.tenant]

    def _place_tiers(self, rivals: Sequence[Served]) -> None:
        """Place tiers that were idle beside the busy ones that this claim serves."""
        tiers = [self._tiers[s.tier] for s in rivals]
        floor = min((t.pass_ for t in tiers if not t.is_new), default=self._last_pass)
        for tier in tiers:
            if tier.is_new:
                tier.pass_, tier.is_new = max(tier.pass_, floor), False

    def _choose(self, rivals: Sequence[Served]) -> tuple[Served, Waiting] | None:
        """Tier, tenant, job. Equal passes: the heavier tier, then by name; equal tenants and jobs by bytes."""
        for served in sorted(rivals, key=lambda s: (self._tiers[s.tier].pass_, -s.weight, s.tier)):
            tier = self._tiers[served.tier]
            heads = [(tenant, head) for tenant, jobs in tier.busy.items() if (head := jobs.head(served.lengths))]
            if heads:
                return served, min(heads, key=lambda choice: self._tenant_order(tier, *choice))[1]
        return None

    def _tenant_order(self, tier: _Tier, tenant: str, head: Waiting) -> tuple[float, bytes]:
        return tier.passes[tenant] + head.estimate / self.weights.get(tenant, 1.0), tenant.encode()

    def _take(self, job: Waiting) -> None:
        tier = self._tiers[job.tier]
        self._dequeue(job)
        self._leased.add(job.job_id)
        tier.last_pass = tier.passes[job.tenant]
        tier.passes[job.tenant] += job.estimate / self.weights.get(job.tenant, 1.0)

    def _charge_tier(self, served: Served, estimate: float) -> None:
        tier = self._tiers[served.tier]
        self._last_pass = tier.pass_
        tier.pass_ += estimate / served.weight
