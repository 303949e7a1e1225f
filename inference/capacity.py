"""How much may wait, by what the fleet can do: live replicas by measured rate by max wait. Pure.

A replica is live from `loading` on, by its model's configured rates until it was measured: a cold start queues, it
does not refuse. Where none is live, and the model may be started from none, one is taken to come.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from inference import guards, routing
from inference.limits import Limits, ModelLimits, QueueCaps, TierLimits

BYTES_PER_TOKEN: Final = 4
"""Of a request, on average: what tokenizers of English text come to."""
TIMES_HELD: Final = 2
"""Requests may wait for twice as many tokens as the engines can hold."""


class Backlog(Protocol):
    """What waits in a queue."""

    @property
    def queue(self) -> str:
        """Its name."""

    @property
    def jobs(self) -> int:
        """How many."""

    @property
    def work_seconds(self) -> float:
        """What they are expected to take, each for itself."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A live worker of a model."""

    model: str
    serve: tuple[str, ...]
    slots: int
    """0 until its engine said."""
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Fleet:
    """Those that serve a queue."""

    replicas: int
    slots: int
    """Of the queue's jobs, less what they keep for other tiers; of one to come, if none lives."""
    is_ready: bool
    """At least one of them takes jobs now."""


def fleet(limits: Limits, queue: str, replicas: Iterable[Replica]) -> Fleet:
    """Return who serves `queue`, of the live replicas."""
    model = limits.models[routing.parse(queue).model]
    serving = [each for each in replicas if _serves(each, model, [queue])]
    to_come = Replica(model.name, ("*",), model.max_num_seqs, is_ready=False)
    slots = sum(_open_slots(limits, queue, each) for each in serving or [to_come])
    if model.max_in_flight is not None:
        slots = min(slots, model.max_in_flight)
    return Fleet(len(serving), max(1, slots), any(each.is_ready for each in serving))


def _serves(replica: Replica, model: ModelLimits, queues: Iterable[str]) -> bool:
    return replica.model == model.name and bool(routing.served(queues, model=model.name, patterns=replica.serve))


def _open_slots(limits: Limits, queue: str, replica: Replica) -> int:
    """Return the replica's slots, less those that it keeps from the queue for tiers that use the reserve."""
    name = routing.parse(queue)
    model = limits.models[name.model]
    slots = replica.slots or model.max_num_seqs
    urgent = [tier.name for tier in limits.tiers.values() if tier.uses_reserve]
    if name.tier in urgent:
        return slots
    kept_for = [f"{model.name}.{tier}.{length}" for tier in urgent for length in limits.lengths]
    keeps = _serves(replica, model, kept_for)
    return slots - guards.reserve(guards.Room(slots, 0), model.reserve_share).sequences * keeps


def own_slots(fleet: Fleet, caps: Iterable[int | None]) -> int | None:
    """Return how many jobs of a queue run at once where caps in flight leave it fewer slots; None: they do not."""
    least = min((cap for cap in caps if cap is not None), default=fleet.slots)
    return max(1, least) if least < fleet.slots else None


def max_wait_seconds(tier: TierLimits, caps: QueueCaps, model: ModelLimits, fleet: Fleet) -> float | None:
    """Return the longest wait that a queue bears; None where an admin's own cap decides."""
    return None if caps.is_explicit else borne_seconds(tier, model, fleet)


def borne_seconds(tier: TierLimits, model: ModelLimits, fleet: Fleet) -> float | None:
    """Return the longest wait that a tier bears now: longer while engines start; None: any."""
    if tier.max_wait_seconds is None:
        return None
    return tier.max_wait_seconds + (0.0 if fleet.is_ready else model.engine_start_seconds)


def jobs(slots: int, *, mean_seconds: float, wait_seconds: float) -> int:
    """Return how many jobs of that service time begin in so many slots within that wait."""
    return math.floor(slots * wait_seconds / max(mean_seconds, 1e-6))


def most_jobs(limits: Limits, waits: Backlog, replicas: Iterable[Replica]) -> int:
    """Return what may wait in a queue: its cap, or what its fleet starts within the tier's max wait.

    No less than the fleet runs at once, or it would never run full.
    """
    name = routing.parse(waits.queue)
    model, tier, caps = (
        limits.models[name.model],
        limits.tiers[name.tier],
        limits.queue_caps(waits.queue, name.tier),
    )
    serving = fleet(limits, waits.queue, replicas)
    wait = max_wait_seconds(tier, caps, model, serving)
    if wait is None:
        return caps.jobs
    slots = own_slots(serving, limits.caps_in_flight(waits.queue, name.tier, name.length)) or serving.slots
    return min(caps.jobs, max(slots, jobs(slots, mean_seconds=mean_seconds(model, waits), wait_seconds=wait)))


def mean_seconds(model: ModelLimits, waits: Backlog) -> float:
    """Return the service time of a job like those that wait; where none does, of a usual answer."""
    if waits.jobs:
        return waits.work_seconds / waits.jobs
    return model.default_output_tokens / model.decode_tokens_per_second


def model_bytes(model: ModelLimits, replicas: int) -> int:
    """Return how many bytes of requests may wait for a model: as an admin set, else by what its engines hold."""
    if model.max_queued_bytes is not None:
        return model.max_queued_bytes
    tokens = max(1, replicas) * model.max_num_seqs * model.max_model_len
    return tokens * BYTES_PER_TOKEN * TIMES_HELD


def share(tier: TierLimits, tiers: Sequence[TierLimits], emergency: float) -> float:
    """Return the share of what may wait from which a tier is refused: the least urgent first, by weight."""
    urgent_first = sorted({each.weight for each in tiers}, reverse=True)
    if len(urgent_first) < 2:
        return 1.0
    return 1.0 - (1.0 - emergency) * urgent_first.index(tier.weight) / (len(urgent_first) - 1)


@dataclass(frozen=True, slots=True)
class Weightier:
    """A tier as heavy as another one, or heavier."""

    ratio: float
    """Its weight over that one's: so many times its service the scheduler gives it, as long as both have work."""
    queues: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A model's queues as a job that comes to one of them sees them."""

    own: tuple[str, ...]
    """Of its tier, its own among them."""
    before: tuple[Weightier, ...]
    others: tuple[str, ...]


def line(queue: routing.QueueName, tiers: Iterable[TierLimits], lengths: Collection[str]) -> Line:
    """Return what a job of `queue` waits behind, and what goes behind it."""
    weights = {tier.name: tier.weight for tier in tiers}
    own = weights.pop(queue.tier, min(weights.values(), default=1.0))
    queues = {name: _queues(queue.model, name, lengths) for name in weights}
    ours = _queues(queue.model, queue.tier, lengths)
    return Line(
        own=ours if str(queue) in ours else (str(queue), *ours),
        before=tuple(Weightier(w / own, queues[name]) for name, w in weights.items() if w >= own),
        others=tuple(name for tier, w in weights.items() if w < own for name in queues[tier]),
    )


def _queues(model: str, tier: str, lengths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{model}.{tier}.{length}" for length in lengths)
