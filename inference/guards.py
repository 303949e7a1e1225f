"""What bounds a claim beside what waits, as frozen values: see `docs/scheduling.md`. No Django or Redis here."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Room:
    """A part of what a worker can hold."""

    sequences: int
    kv_tokens: int


NO_ROOM: Final = Room(0, 0)
ANY_SIZE: Final = 1 << 40
"""KV tokens that any job fits."""

RESERVE_FROM_SEQUENCES: Final = 8
"""A smaller engine has nothing to spare."""


def reserve(room: Room, share: float) -> Room:
    """Return what of an engine is kept for tiers with `uses_reserve`: a slot at least, unless it is small."""
    if share <= 0 or room.sequences < RESERVE_FROM_SEQUENCES:
        return NO_ROOM
    return Room(max(1, int(room.sequences * share)), int(room.kv_tokens * share))


@dataclass(frozen=True, slots=True)
class Credit:
    """What a worker can still take."""

    sequences: int
    kv_tokens: int
    margin_tokens: int = 0
    """Counted on top of each job's expected tokens."""
    reserve: Room = NO_ROOM
    """Of it, what only tiers with `uses_reserve` may take."""
    may_park: bool = False
    """Whether the worker may be given one job that does not fit yet: it drains until the job does."""
    alone_ms: int | None = None
    """When it is to be given a job that must run alone, whatever else waits; 0: now. Until then it is given one
    only if it has nothing else to do. None: none at all."""


@dataclass(frozen=True, slots=True)
class TierTerms:
    """On what terms one tier is claimed now."""

    weight: float = 1.0
    """Share of service against the other tiers."""
    uses_reserve: bool = False
    share: Room | None = None
    """What it may still take here while online work waits or came lately. None: no bound, the tier is online."""
    gather_jobs: int = 0
    """A worker with jobs in flight leaves fewer than this waiting for `gather_seconds`; 0: it does not wait."""
    gather_seconds: float = 0.0
    target_seconds: float | None = None
    """A job that waited no longer starts in time; None: any that starts does. It bounds nothing."""


NO_TERMS: Final = TierTerms()


@dataclass(frozen=True, slots=True)
class Cap:
    """The most leases over some queues together, over all workers. Fails closed: what is over it waits."""

    queues: tuple[str, ...]
    jobs: int


@dataclass(frozen=True, slots=True)
class Load:
    """What the claiming worker has: for levelling and gather windows."""

    in_flight: int = 0
    slots: int = 0


NO_LOAD: Final = Load()
