"""How much a worker may still take: credit in sequences and KV tokens. Pure.

A worker pulls only what its engine has room for, and never ahead: a job that waits inside a worker is a second
queue that nobody sees and nobody can reorder. The price is the round trip between the end of one job and the start
of the next, milliseconds against seconds of generation: what the engine has answered gives its room back at once,
and its end is put on record beside the start of the next. One exception: a job that fitted no worker for too long
is parked at one, which then drains until it fits.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from inference.guards import NO_ROOM, Credit, Room

NONE: Final = Credit(0, 0)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one engine holds at a time."""

    sequences: int
    kv_tokens: int
    """Size of the KV cache as the engine tells it."""
    margin_tokens: int
    """Kept free per job above its expected tokens, since an expectation can be too low."""
    largest_job_tokens: int
    """Prompt plus output that a job of the model may have at most."""

    @property
    def whole_job_tokens(self) -> int:
        """What takes a job of any size."""
        return self.largest_job_tokens + self.margin_tokens


@dataclass(frozen=True, slots=True)
class Need:
    """What one job needs, with its margin."""

    tier: str
    kv_tokens: int
    is_alone: bool = False
    """Fits beside nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is in flight: by the worker's own count, since the engine's gauges lag by seconds."""

    sequences: int = 0
    """Every job from its claim until the engine is done with it, a parked one too."""
    kv_tokens: int = 0
    """Prompt, expected output and margin of those that are not parked."""
    parked: Need | None = None
    """The job that waits here until it fits."""
    tiers: Mapping[str, Room] = field(default_factory=lambda: MappingProxyType({}))
    """What each tier holds of `kv_tokens`; a tier that holds nothing may be missing."""

    is_alone: bool = False
    """One runs that fits beside nothing."""

    def held_by(self, tiers: Iterable[str]) -> Room:
        """Return what some tiers hold together, without what is parked."""
        held = [self.tiers.get(tier, NO_ROOM) for tier in tiers]
        return Room(sum(room.sequences for room in held), sum(room.kv_tokens for room in held))


def credit(
    capacity: Capacity,
    load: Load,
    *,
    is_open: bool,
    reserve: Room = NO_ROOM,
    reserve_tiers: Collection[str] = (),
    alone_ms: int | None = None,
) -> Credit:
    """Return what fits beside `load`; nothing while the gate is shut.

    An idle engine offers itself to a job of any size the model allows, reserve or not: one that it can never hold
    must come out of the queue to be failed, or it would block those behind it for ever.
    """
    sequences = capacity.sequences - load.sequences
    if not is_open or sequences < 1 or load.is_alone or _is_all_but_alone(load, reserve_tiers):
        return NONE
    free = max(0, capacity.kv_tokens - load.kv_tokens)
    if load.parked:
        held = load.held_by(reserve_tiers).kv_tokens
        return _beside(capacity, sequences, min(free, capacity.kv_tokens - load.parked.kv_tokens - held))
    spare = free
    if load.sequences == 0:
        free = max(free, capacity.whole_job_tokens)
        spare = free - capacity.whole_job_tokens
    return Credit(
        sequences,
        free,
        capacity.margin_tokens,
        reserve=Room(min(reserve.sequences, sequences), min(reserve.kv_tokens, spare)),
        may_park=load.sequences > 0,
        alone_ms=_with_others_first(alone_ms, load),
    )


def _with_others_first(alone_ms: int | None, load: Load) -> int | None:
    """Return when one that must run alone is due: an idle worker first takes what else waits."""
    return alone_ms if alone_ms is None or load.sequences else max(1, alone_ms)


def _is_all_but_alone(load: Load, reserve_tiers: Collection[str]) -> bool:
    """Whether one that must run alone waits for nobody but tiers with `uses_reserve`: no more of them may come."""
    if load.parked is None or not load.parked.is_alone:
        return False
    return all(tier in reserve_tiers or room.sequences < 1 for tier, room in load.tiers.items())


def _beside(capacity: Capacity, sequences: int, kv_tokens: int) -> Credit:
    """Return what may be claimed while a job is parked: by tiers with `uses_reserve`, what fits beside it."""
    if kv_tokens < 1:
        return NONE
    return Credit(sequences, kv_tokens, capacity.margin_tokens, reserve=Room(sequences, kv_tokens))


def may_start(
    capacity: Capacity, load: Load, *, reserve: Room = NO_ROOM, reserve_tiers: Collection[str] = ()
) -> bool:
    """Whether the parked job fits now, beside the reserve unless that is for it.

    If it never does, it starts once nothing else of those without the reserve is in flight; if it must run alone,
    once nothing else is.
    """
    if load.parked is None or load.is_alone:
        return False
    if load.parked.is_alone:
        return all(room.sequences < 1 for room in load.tiers.values())
    if load.kv_tokens + load.parked.kv_tokens > capacity.kv_tokens:
        return load.kv_tokens == 0
    ordinary = load.kv_tokens - load.held_by(reserve_tiers).kv_tokens
    is_urgent = load.parked.tier in reserve_tiers
    return is_urgent or not ordinary or ordinary + load.parked.kv_tokens + reserve.kv_tokens <= capacity.kv_tokens


def share(capacity: Capacity, held: Room, max_share: float) -> Room:
    """Return what a tier that holds `held` may still take of its share: one job of any size at least."""
    sequences = max(1, int(capacity.sequences * max_share)) - held.sequences
    kv_tokens = int(capacity.kv_tokens * max_share) - held.kv_tokens
    if held.sequences == 0:
        kv_tokens = max(kv_tokens, capacity.whole_job_tokens)
    return Room(max(0, sequences), max(0, kv_tokens))


def is_hungry(offered: Credit, shares: Iterable[Room], capacity: Capacity) -> bool:
    """Whether a claim that came back empty may have left work behind that only did not fit what was offered."""
    ordinary = Room(offered.sequences - offered.reserve.sequences, offered.kv_tokens - offered.reserve.kv_tokens)
    return any(room.sequences < 1 or room.kv_tokens < capacity.whole_job_tokens for room in (ordinary, *shares))


def fits_ever(kv_tokens: int, capacity: Capacity) -> bool:
    """Whether the engine could hold a job of `kv_tokens` if it held nothing else."""
    return kv_tokens <= capacity.kv_tokens


class InFlight:
    """The jobs that take an engine's room: from their claim until it is done with them, or they are given up.

    Not locked: its owner sees to that.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, Need] = {}
        self._parked: dict[Hashable, Need] = {}
        self._ending: set[Hashable] = set()
        """Counted no more, and not acknowledged yet."""
        self._tiers: dict[str, Room] = {}
        self._kv_tokens = 0
        self._alone: Hashable | None = None
        self._load: Load | None = Load()

    def __contains__(self, job: Hashable) -> bool:
        return job in self._running or job in self._parked

    def add(
        self, job: Hashable, tier: str, kv_tokens: int, *, is_parked: bool = False, is_alone: bool = False
    ) -> None:
        """Count a job with its margin; counting it again changes nothing. Refused while one runs alone.

        One that must run alone comes parked.
        """
        if job in self or (self._alone is not None and not is_parked):
            return
        self._load = None
        if is_parked:
            self._parked[job] = Need(tier, kv_tokens, is_alone)
        else:
            self._running[job] = Need(tier, kv_tokens)
            self._change(tier, 1, kv_tokens)

    def unpark(self, job: Hashable) -> None:
        """Count a parked job as one that runs."""
        if parked := self._parked.pop(job, None):
            self.add(job, parked.tier, parked.kv_tokens)
            self._alone = job if parked.is_alone else self._alone

    def leave(self, job: Hashable, *, most_ending: int) -> bool:
        """Stop counting a job that left the engine, before its end is on record; returns whether that gave room.

        So the next one starts meanwhile. If `most_ending` are ending already, it counts until it is removed: else
        a worker would take and run without end while the database is away.
        """
        if job not in self._running or len(self._ending) >= most_ending:
            return False
        self._stop_counting(job)
        self._ending.add(job)
        return True

    def remove(self, job: Hashable) -> bool:
        """Forget a job; returns whether that gave room, which one that left or was not counted does not."""
        self._ending.discard(job)
        was_counted = job in self
        self._stop_counting(job)
        return was_counted

    def _stop_counting(self, job: Hashable) -> None:
        self._load = None
        self._parked.pop(job, None)
        self._alone = None if job == self._alone else self._alone
        if running := self._running.pop(job, None):
            self._change(running.tier, -1, -running.kv_tokens)

    @property
    def load(self) -> Load:
        """The sum of all; worked out once after each change."""
        if self._load is None:
            parked = next(iter(self._parked.values()), None)
            sequences = len(self._running) + len(self._parked)
            tiers, is_alone = MappingProxyType(dict(self._tiers)), self._alone is not None
            self._load = Load(sequences, self._kv_tokens, parked, tiers, is_alone)
        return self._load

    def _change(self, tier: str, sequences: int, kv_tokens: int) -> None:
        held = self._tiers.get(tier, NO_ROOM)
        self._tiers[tier] = Room(held.sequences + sequences, held.kv_tokens + kv_tokens)
        self._kv_tokens += kv_tokens
