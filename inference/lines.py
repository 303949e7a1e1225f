"""Who waits in one tier, and whose turn it is among the tenants. Pure; see `docs/scheduling.md`."""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

SJF_MS: Final = 1000.0
"""`sjf_weight` 1: a second of estimate orders a job like a second of arrival."""
RECENT_MS: Final = 10_000
"""Tenants compete within a set of lengths while workers claim with it; so long after the last claim it counts."""
SET_TOUCH_MS: Final = 1_000
SET_IDLE_MS: Final = 600_000
"""A set that no worker claims with any more is forgotten."""
NEVER_MS: Final = 1 << 40
FIXES: Final = 8
"""Most tenants that one look raises; the others are raised when they come up."""


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
    alone: bool = False
    """Must run alone: waits in no order."""

    @property
    def order(self) -> tuple[float, bytes]:
        """Place among the tenant's jobs: arrival + `sjf_weight` x estimate, then id."""
        return self.arrival_ms + SJF_MS * self.estimate, self.job_id


@dataclass(slots=True)
class TenantJobs:
    """One tenant's waiting jobs of one tier: a heap a length. Jobs that left stay in it until they come up."""

    waiting: dict[bytes, Waiting] = field(default_factory=dict)
    heaps: dict[str, list[tuple[float, bytes]]] = field(default_factory=dict)

    def add(self, job: Waiting) -> None:
        """Line a job up."""
        self.waiting[job.job_id] = job
        heapq.heappush(self.heaps.setdefault(job.length, []), job.order)

    def heads(self, lengths: Collection[str]) -> list[Waiting]:
        """Return the first job of each of `lengths`, in order."""
        firsts = (self.first(length) for length in lengths)
        return sorted((job for job in firsts if job), key=lambda job: job.order)

    def first(self, length: str) -> Waiting | None:
        """Return the first job of one length."""
        heap = self.heaps.get(length, [])
        while heap:
            job = self.waiting.get(heap[0][1])
            if job and job.length == length and job.order == heap[0]:
                return job
            heapq.heappop(heap)
        return None


@dataclass(slots=True)
class Tier:
    """One tier of a model: its pass against other tiers, and its tenants' passes against one another."""

    weights: Mapping[str, float]
    """Of tenants; 1 unless set."""
    pass_: float = 0.0
    floor: float = 0.0
    """The largest pass at which another was served in its place: no correction puts it below."""
    seen_ms: int = -NEVER_MS
    """The last claim in which it took part in a choice between tiers."""
    passes: dict[str, float] = field(default_factory=dict)
    floors: dict[str, float] = field(default_factory=dict)
    """The smallest that a tenant may be corrected to: the mark at which it came back from idle."""
    last_pass: float = 0.0
    """Of the tenant served last, before it was charged."""
    busy: dict[str, TenantJobs] = field(default_factory=dict)
    sets: dict[frozenset[str], int] = field(default_factory=dict)
    """Lengths that some worker serves together -> its last claim, ms: tenants compete within these."""
    marks: dict[str, float] = field(default_factory=dict)
    """Length -> the largest pass at which a tenant was chosen while a guard held that length back."""

    def push(self, pass_: float) -> None:
        """Let the tier fall no further behind than `pass_`: another is served there in its place."""
        self.pass_, self.floor = max(self.pass_, pass_), max(self.floor, pass_)

    def use_set(self, lengths: frozenset[str], now_ms: int) -> None:
        """Note that a worker claims with `lengths`."""
        if lengths and now_ms - self.sets.get(lengths, -SET_IDLE_MS) > SET_TOUCH_MS:
            self.sets[lengths] = now_ms

    def forget_sets(self, now_ms: int) -> None:
        """Drop the sets that nobody claims with any more."""
        self.sets = {s: at_ms for s, at_ms in self.sets.items() if now_ms - at_ms <= SET_IDLE_MS}

    def add(self, job: Waiting, now_ms: int) -> None:
        """Line a job up; its tenant comes back if it was idle, or is raised if only held back work of it waits."""
        if job.tenant not in self.busy:
            self._enter(job.tenant, job.length, now_ms)
            self.busy[job.tenant] = TenantJobs()
        elif not self.busy[job.tenant].first(job.length):
            self._raise(job.tenant, {length for lengths in self.sets for length in lengths} | set(self.marks))
        self.busy[job.tenant].add(job)

    def remove(self, job: Waiting) -> None:
        """Take a waiting job out."""
        del self.busy[job.tenant].waiting[job.job_id]
        if not self.busy[job.tenant].waiting:
            del self.busy[job.tenant]

    def next_tenant(self, lengths: frozenset[str], skipped: Collection[str]) -> str | None:
        """Return the tenant with the smallest pass + estimate at its head / weight; equal: by bytes."""
        for _ in range(FIXES):
            tenant = self._first(lengths, skipped)
            if tenant is None or not self._raise(tenant, lengths):
                return tenant
        return self._first(lengths, skipped)

    def charge(self, job: Waiting) -> float:
        """Charge the job's tenant; return its pass before."""
        self.last_pass = self.passes[job.tenant]
        self.passes[job.tenant] += job.estimate / self.weight(job.tenant)
        return self.last_pass

    def correct(self, tenant: str, by: float) -> None:
        """Move a tenant's pass, never below the mark at which it came back."""
        self.passes[tenant] = max(self.passes.get(tenant, 0.0) + by, self.floors.get(tenant, 0.0))

    def weight(self, tenant: str) -> float:
        """Return a tenant's weight now."""
        return self.weights.get(tenant, 1.0)

    def _with_work(self, lengths: Collection[str]) -> Iterator[str]:
        return (tenant for tenant, jobs in self.busy.items() if jobs.heads(lengths))

    def _first(self, lengths: frozenset[str], skipped: Collection[str]) -> str | None:
        return min((t for t in self._with_work(lengths) if t not in skipped), key=self._key(lengths), default=None)

    def _key(self, lengths: frozenset[str]) -> Callable[[str], tuple[float, bytes]]:
        def key(tenant: str) -> tuple[float, bytes]:
            head = self.busy[tenant].heads(lengths)[0]
            return self.passes[tenant] + head.estimate / self.weight(tenant), tenant.encode()

        return key

    def _enter(self, tenant: str, length: str, now_ms: int) -> None:
        """Place a tenant that was idle: it saves nothing up, and pays nothing."""
        known = sorted((s for s in self.sets if length in s), key=lambda s: ",".join(sorted(s)).encode())
        competing = [s for s in known if now_ms - self.sets[s] <= RECENT_MS] or known
        floors = [floor for s in competing if (floor := self._smallest_pass(s)) is not None]
        floor = min(floors, default=self.last_pass)
        self.passes[tenant] = max(self.passes.get(tenant, 0.0), floor)
        self.floors[tenant] = floor

    def _smallest_pass(self, lengths: frozenset[str]) -> float | None:
        for _ in range(FIXES):
            rival = min(self._with_work(lengths), key=lambda t: (self.passes[t], t.encode()), default=None)
            if rival is None:
                return None
            if not self._raise(rival, lengths):
                break
        return min(self.passes[t] for t in self._with_work(lengths))

    def _raise(self, tenant: str, lengths: Collection[str]) -> bool:
        """Raise a tenant all of whose work in `lengths` was held back: it has saved nothing up."""
        if not self.marks:
            return False
        marks = [self.marks.get(job.length) for job in self.busy[tenant].heads(lengths)]
        owed = min((mark for mark in marks if mark is not None), default=None)
        if owed is None or None in marks or owed <= self.passes[tenant]:
            return False
        self.passes[tenant] = self.floors[tenant] = owed
        return True
