"""What is known of a queue and of a job in it, and what comes out of that."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from inference.guards import ANY_SIZE
from inference.states import WorkerState


class Reason(StrEnum):
    """What holds a job now: the first of these that does."""

    PAUSED = "paused"
    NO_WORKER = "no_worker"
    """No worker that serves the queue has reported lately."""
    WORKER_PAUSED = "worker_paused"
    """All of them are paused, draining or stopped."""
    WORKER_LOADING = "worker_loading"
    """None of them is ready yet."""
    BACKING_OFF = "backing_off"
    """It came back after a failure, and may not be claimed for a while."""
    IN_FLIGHT_CAP = "in_flight_cap"
    """As many run as an admin allows: of the model, tier, length class or queue."""
    NO_FREE_SLOT = "no_free_slot"
    RESERVED_SLOTS = "reserved_slots"
    """What is free is kept for tiers that use the reserve."""
    MAX_SHARE = "max_share"
    """Its tier holds as much as it may while online work is about."""
    NO_FREE_KV = "no_free_kv"
    GATHER_WINDOW = "gather_window"
    """Busy workers wait for more jobs of the tier."""
    FAIR_SHARE = "fair_share"
    """It is the turn of others."""
    NEXT = "next"
    """Nothing: a worker is about to take it."""
    IN_TRANSIT = "in_transit"
    """It is in no queue: a worker has just claimed it, or it is about to be published."""


UNKNOWN_START: Final = frozenset(
    {Reason.PAUSED, Reason.NO_WORKER, Reason.WORKER_PAUSED, Reason.WORKER_LOADING},
)
"""With one of these nobody can tell when the job starts."""

AT_REST: Final = frozenset({WorkerState.PAUSED, WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED})
"""Workers that claim nothing and are not about to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A worker that serves the queue and reported lately, with its engine's room."""

    name: str
    state: WorkerState
    detail: str = ""
    slots: int
    in_flight: int
    kv_tokens: int
    kv_used: int
    reserved_slots: int = 0
    """Of its slots, those for tiers that use the reserve."""
    reserved_kv: int = 0

    def free_slots(self, *, uses_reserve: bool) -> int:
        """Return the sequences that a tier may still take."""
        return max(0, self.slots - self.in_flight - (0 if uses_reserve else self.reserved_slots))

    def free_kv(self, *, uses_reserve: bool) -> int:
        """Return the KV tokens that a tier may still take; an idle engine takes a job of any size."""
        if not self.in_flight:
            return ANY_SIZE
        return max(0, self.kv_tokens - self.kv_used - (0 if uses_reserve else self.reserved_kv))


@dataclass(frozen=True, slots=True)
class CapUse:
    """A cap in flight and what it counts."""

    what: str
    """As in `tier bulk`."""
    jobs: int
    leases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue, and what its jobs compete for."""

    name: str
    engines: tuple[Engine, ...] = ()
    other_engines: int = 0
    """Workers of the model that do not serve the queue."""
    is_paused: bool = False
    halted_by: str = ""
    """Who paused it."""
    caps: tuple[CapUse, ...] = ()
    uses_reserve: bool = False
    max_share: float = 1.0
    tier_leases: int = 0
    """Jobs of its model and tier in flight."""
    tier_jobs: int = 0
    """Those that wait."""
    is_online_about: bool = False
    """Online work waits or came a moment ago: `max_share` counts."""
    gather_jobs: int = 0
    gather_seconds: float = 0.0
    oldest_seconds: float = 0.0
    """Age of the tier's oldest waiting job."""
    service_seconds: float | None = None
    """Mean of jobs that ended lately; None: none did."""

    @property
    def ready(self) -> list[Engine]:
        """Return the workers that claim."""
        return [engine for engine in self.engines if engine.state is WorkerState.READY]

    @property
    def free_slots(self) -> int:
        """Return the sequences that its jobs may still take."""
        return sum(engine.free_slots(uses_reserve=self.uses_reserve) for engine in self.ready)

    @property
    def slots(self) -> int:
        """Return how many of its jobs can run at once, at least one."""
        slots = sum(e.slots - (0 if self.uses_reserve else e.reserved_slots) for e in self.ready)
        return max(1, min([slots, *(cap.jobs for cap in self.caps)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A job's place in the order."""

    own_ahead: int = 0
    """Jobs of its tenant that go first: exact."""
    tenants_ahead: int = 0
    """Jobs of other tenants in its tier: estimated."""
    tiers_ahead: int = 0
    """Jobs of other tiers: estimated."""
    kv_tokens: int = 0
    """With the margin."""
    estimate_seconds: float = 0.0
    backing_off_seconds: float | None = None
    """Until it may be claimed; None if it may."""

    @property
    def others_ahead(self) -> int:
        """Return the jobs of others that go first."""
        return self.tenants_ahead + self.tiers_ahead

    @property
    def position(self) -> int:
        """Return 1 for the next."""
        return 1 + self.own_ahead + self.others_ahead


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, and for how long."""

    reason: Reason
    detail: str
    position: int
    """1 is next; exact within its tenant, estimated across tenants and tiers."""
    seconds: float | None
    """Until it may start, at the rate at which jobs ended lately; None: nobody can tell."""
