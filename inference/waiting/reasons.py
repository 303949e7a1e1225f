"""Which of all reasons holds a job now, in words, and how long it will."""

from collections.abc import Callable
from typing import Final

from inference.guards import ANY_SIZE
from inference.waiting import starts
from inference.waiting.facts import AT_REST, Engine, Place, Queue, Reason, Waiting

NOTABLE_RESERVE: Final = 0.1
"""A reserve that keeps no more of the slots free is not told of: to make it smaller would win little, and more
workers are what helps. Nor is one of a slot a worker, the least there is."""

SHARED_TURNS: Final = frozenset(
    {Reason.WORKER_RUNS_ALONE, Reason.NO_FREE_SLOT, Reason.RESERVED_SLOTS, Reason.MAX_SHARE, Reason.NO_FREE_KV},
)
"""What holds all alike: of a job behind others, it is told that it is their turn."""


def decide(queue: Queue, place: Place) -> Waiting:
    """Return what holds the job now: the first of `Reason` that does."""
    queue = queue.for_job(place.tokens)
    held, detail = next(found for check in _CHECKS if (found := check(queue, place)))
    seconds = starts.seconds(queue, place, held)
    if held in SHARED_TURNS and place.others_ahead:
        return Waiting(Reason.FAIR_SHARE, f"{_first(place)}; {detail}", place.position, seconds)
    return Waiting(held, detail, place.position, seconds)


def at_worker(worker: str) -> Waiting:
    """Return what holds a job that was claimed and has not begun."""
    return Waiting(Reason.AT_WORKER, f"{worker} has it, and begins it as soon as there is room for it", None, None)


_Found = tuple[Reason, str] | None


def _paused(queue: Queue, _place: Place) -> _Found:
    by = f" by {queue.halted_by}" if queue.halted_by else ""
    return (Reason.PAUSED, f"queue {queue.name} is paused{by}") if queue.is_paused else None


def _no_worker(queue: Queue, _place: Place) -> _Found:
    if queue.engines:
        return None
    others = f"; {_count(queue.other_engines, 'worker')} of the model serve others" if queue.other_engines else ""
    return Reason.NO_WORKER, f"no worker serves queue {queue.name}{others}"


def _worker_paused(queue: Queue, _place: Place) -> _Found:
    if any(engine.state not in AT_REST for engine in queue.engines):
        return None
    return Reason.WORKER_PAUSED, _names(queue)


def _worker_loading(queue: Queue, _place: Place) -> _Found:
    return None if queue.ready else (Reason.WORKER_LOADING, _names(queue))


def _backing_off(_queue: Queue, place: Place) -> _Found:
    if place.backing_off_seconds is None:
        return None
    return Reason.BACKING_OFF, f"came back after a failure; tried again in {place.backing_off_seconds:.1f} s"


def _must_run_alone(_queue: Queue, place: Place) -> _Found:
    if not place.is_alone:
        return None
    before = f"; {_count(place.own_ahead, 'such job')} of its queue before it" if place.own_ahead else ""
    return Reason.MUST_RUN_ALONE, f"was in flight at two crashes of an engine: it runs alone, in its turn{before}"


def _cap(queue: Queue, _place: Place) -> _Found:
    for cap in queue.caps:
        if cap.leases >= cap.jobs:
            return Reason.IN_FLIGHT_CAP, f"{cap.what} may run {_count(cap.jobs, 'job')} at once; {cap.leases} run"
    return None


def _worker_runs_alone(queue: Queue, _place: Place) -> _Found:
    shut = [engine.name for engine in queue.ready if engine.holds_alone]
    if not shut or any(engine.free_slots(uses_reserve=True) for engine in queue.ready):
        return None
    return Reason.WORKER_RUNS_ALONE, f"{', '.join(shut)} takes nothing beside a job that must run alone"


def _no_slot(queue: Queue, _place: Place) -> _Found:
    if queue.with_slots:
        return None
    kept = sum(engine.free_slots(uses_reserve=True) for engine in queue.ready)
    slots = sum(engine.slots for engine in queue.ready)
    if kept > max(len(queue.ready), slots * NOTABLE_RESERVE):
        return Reason.RESERVED_SLOTS, f"{kept} of {_count(slots, 'slot')} are free, and reserved for other tiers"
    but = f" but {kept}, reserved for other tiers" if kept else ""
    return Reason.NO_FREE_SLOT, f"all {_count(slots, 'slot')} of {_workers(queue)} are taken{but}"


def _share(queue: Queue, place: Place) -> _Found:
    shared = queue.shared
    if any(engine not in shared for engine in queue.with_slots):
        return None
    most = sum(engine.share(queue.max_share).sequences for engine in shared)
    if queue.held_in(shared).sequences >= most:
        held = f"its share, {_count(most, 'slot')}"
        return Reason.MAX_SHARE, f"its tier holds {held}, as long as online work comes"
    free = max(_kv_of_share(queue, engine) for engine in queue.with_slots)
    if free >= place.kv_tokens:
        return None
    needs = f"needs {place.kv_tokens} KV tokens; of its tier's share at most {free} are free"
    return Reason.MAX_SHARE, f"{needs}, as long as online work comes"


def _kv_of_share(queue: Queue, engine: Engine) -> int:
    held = queue.held_in([engine])
    return max(0, engine.share(queue.max_share).kv_tokens - held.kv_tokens) if held.sequences else ANY_SIZE


def _no_kv(queue: Queue, place: Place) -> _Found:
    free = max(engine.free_kv(uses_reserve=queue.uses_reserve) for engine in queue.with_slots)
    if free >= place.kv_tokens:
        return None
    return Reason.NO_FREE_KV, f"needs {place.kv_tokens} KV tokens; at most {free} are free"


def _gather(queue: Queue, _place: Place) -> _Found:
    rest = queue.gather_seconds - queue.oldest_seconds
    is_idle = any(engine.in_flight == 0 for engine in queue.ready)
    if is_idle or queue.tier_jobs >= queue.gather_jobs or rest <= 0:
        return None
    detail = f"busy workers wait for {queue.gather_jobs} jobs of its tier, or {rest:.1f} s; {queue.tier_jobs} wait"
    return Reason.GATHER_WINDOW, detail


def _turn(_queue: Queue, place: Place) -> _Found:
    if place.position > 1:
        return Reason.FAIR_SHARE, _first(place)
    return Reason.NEXT, "a worker is about to take it"


_CHECKS: Final[tuple[Callable[[Queue, Place], _Found], ...]] = (
    _paused,
    _no_worker,
    _worker_paused,
    _worker_loading,
    _backing_off,
    _cap,
    _must_run_alone,
    _worker_runs_alone,
    _no_slot,
    _share,
    _no_kv,
    _gather,
    _turn,
)


def _first(place: Place) -> str:
    return f"about {_count(place.position - 1, 'job')} before it"


def _names(queue: Queue) -> str:
    small = f"too large for {_count(queue.too_small, 'ready worker')}; " if queue.too_small else ""
    names = ", ".join(f"{e.name} is {e.state}{f' ({e.detail})' if e.detail else ''}" for e in queue.engines[:3])
    more = f" and {len(queue.engines) - 3} more" if len(queue.engines) > 3 else ""
    return f"{small}{names}{more}"


def _workers(queue: Queue) -> str:
    return _count(len(queue.ready), "worker")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
