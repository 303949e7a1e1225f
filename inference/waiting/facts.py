"""What is known of a queue and of a job in it, and what comes out of that."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

from inference.guards import ANY_SIZE, Room
from inference.states import WorkerState


class Reason(StrEnum):
    """What holds a job now: the first of these that does."""

    SPILLED = "spilled"
    """It is not in its queue yet, which was full when it came."""
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
    MUST_RUN_ALONE = "must_run_alone"
    """It was in flight at two crashes of an engine, and waits for its turn to run with nothing beside it."""
    WORKER_RUNS_ALONE = "worker_runs_alone"
    """The worker that has room runs such a job, or empties itself for it."""
    NO_FREE_SLOT = "no_free_slot"
    """All are taken, but for a small reserve: more workers are what helps."""
    RESERVED_SLOTS = "reserved_slots"
    """What is free is kept for tiers that use the reserve, and is a notable part."""
    MAX_SHARE = "max_share"
    """Its tier holds as many slots or KV tokens as it may while online work is about."""
    NO_FREE_KV = "no_free_kv"
    GATHER_WINDOW = "gather_window"
    """Busy workers wait for more jobs of the tier."""
    FAIR_SHARE = "fair_share"
    """It is the turn of others."""
    NEXT = "next"
    """Nothing: a worker is about to take it."""
    AT_WORKER = "at_worker"
    """A worker has claimed it, and is about to begin it, or makes room for it: it was parked there."""
    IN_TRANSIT = "in_transit"
    """It is in no queue and at no worker: it is about to be published."""


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
    """Its whole KV cache; 0 while that is not known."""
    kv_used: int
    reserved_slots: int = 0
    """Of its slots, those for tiers that use the reserve."""
    reserved_kv: int = 0
    holds_alone: bool = False
    """It holds a job that must run alone, and takes nothing beside it."""
    is_online_about: bool = False
    """Online work that it serves waits or came a moment ago: shares of other tiers bind here."""

    def free_slots(self, *, uses_reserve: bool) -> int:
        """Return the sequences that a tier may still take."""
        if self.holds_alone:
            return 0
        return max(0, self.slots - self.in_flight - (0 if uses_reserve else self.reserved_slots))

    def free_kv(self, *, uses_reserve: bool) -> int:
        """Return the KV tokens that a tier may still take; an idle engine takes all that is not left to others."""
        if not self.in_flight:
            return ANY_SIZE
        return max(0, self.kv_tokens - self.kv_used - (0 if uses_reserve else self.reserved_kv))

    def room(self, *, uses_reserve: bool) -> Room:
        """Return what a tier can hold here at most."""
        if uses_reserve:
            return Room(self.slots, self.kv_tokens)
        return Room(self.slots - self.reserved_slots, self.kv_tokens - self.reserved_kv)

    def share(self, max_share: float) -> Room:
        """Return what a tier with that share can hold here while the share binds: one job of any size at least."""
        return Room(max(1, int(self.slots * max_share)), int(self.kv_tokens * max_share))


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
    too_small: int = 0
    """Ready workers left out of them, since they leave the job in question to larger ones."""
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
    tier_kv: int = 0
    """KV tokens that they hold, with their margins."""
    tier_jobs: int = 0
    """Those that wait."""
    job_kv: int = 0
    """KV tokens that one of those needs on average, with its margin; 0: not known."""
    gather_jobs: int = 0
    gather_seconds: float = 0.0
    oldest_seconds: float = 0.0
    """Age of the tier's oldest waiting job."""
    line_seconds: float = 0.0
    """For how long jobs of its tier have waited while workers and pauses were as they are now."""
    service_seconds: float | None = None
    """What one of its jobs takes (`Pace`); None: not known."""
    starts_per_second: float = 0.0
    """Of its model's jobs, over the last half minute; 0: not known."""
    still_seconds: float = 0.0
    """For how long none of its model's jobs has started though its tier waited."""

    @property
    def ready(self) -> list[Engine]:
        """Return the workers that claim."""
        return [engine for engine in self.engines if engine.state is WorkerState.READY]

    @property
    def shared(self) -> list[Engine]:
        """Return those of them where its tier is held to its share now."""
        return [engine for engine in self.ready if self.max_share < 1 and engine.is_online_about]

    @property
    def with_slots(self) -> list[Engine]:
        """Return those of them that have sequences free for its jobs."""
        return [engine for engine in self.ready if engine.free_slots(uses_reserve=self.uses_reserve)]

    def held_in(self, engines: Sequence[Engine]) -> Room:
        """Return what its tier holds there: as much of what it holds at all as they have of what is in flight."""
        there, all_in_flight = (sum(engine.in_flight for engine in each) for each in (engines, self.ready))
        part = there / all_in_flight if all_in_flight else 0.0
        return Room(round(self.tier_leases * part), round(self.tier_kv * part))

    def for_job(self, tokens: int) -> Self:
        """Return the queue with those workers alone that would take a job of so many tokens, margin not counted.

        As the claim has it: what is larger than a worker's KV cache is left to a larger worker, if there is one.
        """
        takers = tuple(engine for engine in self.engines if not self._is_left(tokens, engine))
        return replace(self, engines=takers, too_small=sum(engine not in takers for engine in self.ready))

    def _is_left(self, tokens: int, engine: Engine) -> bool:
        others = (other for other in self.engines if other.state is not WorkerState.DRAINING)
        return 0 < engine.kv_tokens < tokens and any(
            not other.kv_tokens or other.kv_tokens > engine.kv_tokens for other in others
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A job's place in the order."""

    own_ahead: int = 0
    """Jobs of its tenant that go first: exact."""
    tenants_ahead: int = 0
    """Jobs of other tenants in its tier: estimated."""
    tiers_ahead: int = 0
    """Jobs of other tiers: estimated."""
    tokens: int = 0
    """Prompt and expected output."""
    kv_tokens: int = 0
    """The same with the margin."""
    estimate_seconds: float | None = None
    """Service seconds; None: not known."""
    backing_off_seconds: float | None = None
    """Until it may be claimed; None if it may."""
    is_alone: bool = False
    """It must run alone: only such jobs go before it."""

    @property
    def others_ahead(self) -> int:
        """Return the jobs of others that go first."""
        return self.tenants_ahead + self.tiers_ahead

    @property
    def position_in_tier(self) -> int:
        """Return 1 for the next of its tier."""
        return 1 + self.own_ahead + self.tenants_ahead

    @property
    def position(self) -> int:
        """Return 1 for the next."""
        return 1 + self.own_ahead + self.others_ahead


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a job waits, and for how long."""

    reason: Reason
    detail: str
    position: int | None
    """1 is next; exact within its tenant, estimated across tenants and tiers. None: a worker has it."""
    seconds: float | None
    """Until it may start, as far as ends and starts of late tell; None: nobody can tell."""
