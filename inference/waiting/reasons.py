"""Which of all reasons holds a job now, in words, and how long it will."""

from collections.abc import Callable
from typing import Final

from inference.waiting.facts import AT_REST, UNKNOWN_START, Place, Queue, Reason, Waiting


def decide(queue: Queue, place: Place) -> Waiting:
    """Return what holds the job now: the first of `Reason` that does."""
    reason, detail = next(found for check in _CHECKS if (found := check(queue, place)))
    return Waiting(reason, detail, place.position, _seconds(reason, queue, place))


def wait_seconds(queue: Queue, position: int, reason: Reason, *, estimate_seconds: float | None) -> float | None:
    """Return how long the job at `position` waits if `reason` holds the first; None where nobody can tell."""
    if reason in UNKNOWN_START or any(cap.jobs < 1 for cap in queue.caps):
        return None
    slots_until = max(0, position - (queue.free_slots if reason is Reason.NEXT else 0))
    each = estimate_seconds if queue.service_seconds is None else queue.service_seconds
    if each is None:
        return None if slots_until else 0.0
    return slots_until * each / queue.slots


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


def _cap(queue: Queue, _place: Place) -> _Found:
    for cap in queue.caps:
        if cap.leases >= cap.jobs:
            return Reason.IN_FLIGHT_CAP, f"{cap.what} may run {_count(cap.jobs, 'job')} at once; {cap.leases} run"
    return None


def _no_slot(queue: Queue, place: Place) -> _Found:
    if any(engine.free_slots(uses_reserve=True) for engine in queue.ready):
        return None
    slots = sum(engine.slots for engine in queue.ready)
    return _behind(place, Reason.NO_FREE_SLOT, f"all {_count(slots, 'slot')} of {_workers(queue)} are taken")


def _reserved(queue: Queue, place: Place) -> _Found:
    if queue.free_slots:
        return None
    return _behind(place, Reason.RESERVED_SLOTS, "what is free is reserved for other tiers")


def _share(queue: Queue, place: Place) -> _Found:
    if queue.max_share >= 1 or not queue.is_online_about:
        return None
    most = sum(max(1, int(engine.slots * queue.max_share)) for engine in queue.ready)
    if queue.tier_leases < most:
        return None
    return _behind(
        place, Reason.MAX_SHARE, f"its tier holds its share, {_count(most, 'slot')}, as long as online work comes"
    )


def _no_kv(queue: Queue, place: Place) -> _Found:
    free = [
        engine.free_kv(uses_reserve=queue.uses_reserve)
        for engine in queue.ready
        if engine.free_slots(uses_reserve=queue.uses_reserve)
    ]
    if max(free) >= place.kv_tokens:
        return None
    return _behind(place, Reason.NO_FREE_KV, f"needs {place.kv_tokens} KV tokens; at most {max(free)} are free")


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
    _no_slot,
    _reserved,
    _share,
    _no_kv,
    _gather,
    _turn,
)


def _behind(place: Place, reason: Reason, detail: str) -> tuple[Reason, str]:
    """Return the reason for who is first; for one behind others, that it is their turn, and what all wait for."""
    return (Reason.FAIR_SHARE, f"{_first(place)}; {detail}") if place.others_ahead else (reason, detail)


def _seconds(reason: Reason, queue: Queue, place: Place) -> float | None:
    waits = wait_seconds(queue, place.position, reason, estimate_seconds=place.estimate_seconds)
    if waits is None:
        return None
    if reason is Reason.GATHER_WINDOW:
        return queue.gather_seconds - queue.oldest_seconds
    return max(waits, place.backing_off_seconds or 0.0)


def _first(place: Place) -> str:
    return f"about {_count(place.position - 1, 'job')} before it"


def _names(queue: Queue) -> str:
    return ", ".join(f"{e.name} is {e.state}{f' ({e.detail})' if e.detail else ''}" for e in queue.engines[:3]) + (
        f" and {len(queue.engines) - 3} more" if len(queue.engines) > 3 else ""
    )


def _workers(queue: Queue) -> str:
    return _count(len(queue.ready), "worker")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
