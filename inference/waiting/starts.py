"""When a job may start: what goes first, at what jobs take, over what runs at once; no sooner than was shown."""

import math
from collections.abc import Iterable
from typing import Final

from inference.guards import Room
from inference.waiting.facts import UNKNOWN_START, Engine, Place, Queue, Reason

SHOWN_SECONDS: Final = 30.0
"""What started in this time speaks for what is to come, if jobs waited all along."""


def seconds(queue: Queue, place: Place, held: Reason) -> float | None:
    """Return how long the job waits if `held` is what holds it; None where nobody can tell."""
    if held in UNKNOWN_START or any(cap.jobs < 1 for cap in queue.caps):
        return None
    if held is Reason.GATHER_WINDOW:
        return queue.gather_seconds - queue.oldest_seconds
    turns, rest = _turns(queue, place, held), place.backing_off_seconds or 0.0
    if turns <= 0:
        return rest
    each = _service_seconds(queue, place)
    return None if each is None else max(turns * each, _shown(queue, place), rest)


def _shown(queue: Queue, place: Place) -> float:
    """Return the least that a wait is, by what the fleet has shown of late.

    Where nothing has started for a while, it is taken to go on for as long again: so a job whose expected start
    has passed is not told the same once more. And what waits before it starts no faster than jobs did meanwhile.
    """
    if not queue.starts_per_second or queue.line_seconds < SHOWN_SECONDS:
        return queue.still_seconds
    return max(queue.still_seconds, (place.position - _free(queue)) / queue.starts_per_second)


def _service_seconds(queue: Queue, place: Place) -> float | None:
    return place.estimate_seconds if queue.service_seconds is None else queue.service_seconds


def _turns(queue: Queue, place: Place, held: Reason) -> float:
    """Return for how many mean service times the job waits.

    Both what goes first of all tiers must have its slots, and what goes first of its own its share of them. A
    share that binds now is taken to go on doing so.
    """
    if held is Reason.NEXT:
        return 0.0
    if held is Reason.MUST_RUN_ALONE:
        return place.position  # one after another
    is_too_large = held in {Reason.MAX_SHARE, Reason.NO_FREE_KV}  # for what is free
    free, free_of_share = (0, 0) if is_too_large else (_free(queue), _free_of_share(queue))
    return max(
        (place.position - free) / _slots(queue),
        (place.position_in_tier - free_of_share) / _share_slots(queue),
        _turns_until_kv(queue, place) if held is Reason.NO_FREE_KV else 0.0,
        1.0 if held is Reason.WORKER_RUNS_ALONE else 0.0,
    )


def _slots(queue: Queue) -> int:
    """Return how many of its jobs can run at once, shares aside."""
    return min([_most(queue, queue.ready), *(cap.jobs for cap in queue.caps)])


def _share_slots(queue: Queue) -> int:
    shared = queue.shared
    return _most(queue, _others(queue)) + _most_of_share(queue, shared)


def _free(queue: Queue) -> int:
    """Return how many of its jobs can start now, shares aside."""
    return max(0, min([_startable(queue, queue.ready), *(cap.jobs - cap.leases for cap in queue.caps)]))


def _free_of_share(queue: Queue) -> int:
    shared = queue.shared
    left = _most_of_share(queue, shared) - queue.held_in(shared).sequences
    return _startable(queue, _others(queue)) + max(0, left)


def _others(queue: Queue) -> list[Engine]:
    return [engine for engine in queue.ready if engine not in queue.shared]


def _most(queue: Queue, engines: Iterable[Engine]) -> int:
    return sum(max(1, _fit(queue, engine.room(uses_reserve=queue.uses_reserve))) for engine in engines)


def _most_of_share(queue: Queue, engines: Iterable[Engine]) -> int:
    return sum(
        min(_most(queue, [engine]), max(1, _fit(queue, engine.share(queue.max_share)))) for engine in engines
    )


def _startable(queue: Queue, engines: Iterable[Engine]) -> int:
    reserve = queue.uses_reserve
    rooms = ((e, Room(e.free_slots(uses_reserve=reserve), e.free_kv(uses_reserve=reserve))) for e in engines)
    return sum(min(_most(queue, [engine]), _fit(queue, room)) for engine, room in rooms)


def _fit(queue: Queue, room: Room) -> int:
    """Return how many of its jobs fit there together, if they are like those that wait."""
    return min(room.sequences, room.kv_tokens // queue.job_kv) if queue.job_kv else room.sequences


def _turns_until_kv(queue: Queue, place: Place) -> float:
    """Return when room for the job comes: what runs ends one after another, and leaves as much each."""
    return min(
        _ends(engine, place.kv_tokens - engine.free_kv(uses_reserve=queue.uses_reserve)) / engine.in_flight
        for engine in queue.with_slots
    )


def _ends(engine: Engine, lacking: int) -> int:
    """Return how many of its jobs must end for so many KV tokens; once all have, it takes any job."""
    if not engine.kv_used:
        return engine.in_flight
    return min(engine.in_flight, math.ceil(lacking * engine.in_flight / engine.kv_used))
