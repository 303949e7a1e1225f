"""One fact at a time is made true; the reason must be the first that holds."""

from dataclasses import replace
from typing import Any

import pytest

from inference.states import WorkerState
from inference.waiting import (
    CapUse,
    Engine,
    Place,
    Queue,
    Reason,
    Waiting,
    ahead_of_other_tiers,
    decide,
)


def engine(**overrides: Any) -> Engine:
    values: dict[str, Any] = {
        "name": "worker-1",
        "state": WorkerState.READY,
        "slots": 8,
        "in_flight": 3,
        "kv_tokens": 1000,
        "kv_used": 300,
        "reserved_slots": 1,
        "reserved_kv": 50,
    }
    return Engine(**values | overrides)


def queue(*engines: Engine, **overrides: Any) -> Queue:
    values: dict[str, Any] = {"name": "m.bulk.short", "engines": engines or (engine(),), "service_seconds": 4.0}
    return Queue(**values | overrides)


def place(**overrides: Any) -> Place:
    return Place(**{"kv_tokens": 100, "estimate_seconds": 1.0} | overrides)


def shared(**overrides: Any) -> Engine:
    """Return a worker where online work is about."""
    return engine(**{"is_online_about": True} | overrides)


def bulk(*engines: Engine, **overrides: Any) -> Queue:
    """Return a queue of a tier with a share: 2 slots and 250 KV tokens of a worker."""
    return queue(*(engines or (shared(),)), **{"max_share": 0.25} | overrides)


FULL = engine(in_flight=8)
ALMOST_FULL = engine(in_flight=7)
SHUT = engine(in_flight=1, holds_alone=True)


@pytest.mark.parametrize(
    ("found", "reason", "says"),
    [
        (decide(queue(is_paused=True, halted_by="user ann"), place()), Reason.PAUSED, "by user ann"),
        (decide(Queue(name="m.bulk.short", other_engines=1), place()), Reason.NO_WORKER, "1 worker of the model"),
        (decide(queue(engine(state=WorkerState.PAUSED)), place()), Reason.WORKER_PAUSED, "worker-1 is paused"),
        (decide(queue(engine(state=WorkerState.DRAINING)), place()), Reason.WORKER_PAUSED, "is draining"),
        (
            decide(queue(engine(state=WorkerState.LOADING, detail="the engine crashed")), place()),
            Reason.WORKER_LOADING,
            "worker-1 is loading (the engine crashed)",
        ),
        (decide(queue(), place(backing_off_seconds=2.0)), Reason.BACKING_OFF, "in 2.0 s"),
        (
            decide(queue(caps=(CapUse("tier bulk", 3, 3),)), place()),
            Reason.IN_FLIGHT_CAP,
            "tier bulk may run 3 jobs",
        ),
        (decide(queue(), place(is_alone=True)), Reason.MUST_RUN_ALONE, "two crashes of an engine"),
        (decide(queue(), place(is_alone=True, own_ahead=3)), Reason.MUST_RUN_ALONE, "; 3 such jobs of its queue"),
        (decide(queue(SHUT), place()), Reason.WORKER_RUNS_ALONE, "worker-1 takes nothing beside a job"),
        (decide(queue(SHUT, FULL), place(tenants_ahead=4)), Reason.FAIR_SHARE, "worker-1 takes nothing beside"),
        (decide(queue(FULL), place()), Reason.NO_FREE_SLOT, "all 8 slots of 1 worker"),
        (decide(queue(FULL), place(own_ahead=4)), Reason.NO_FREE_SLOT, "all 8 slots"),
        (decide(queue(FULL), place(tenants_ahead=4)), Reason.FAIR_SHARE, "about 4 jobs before it; all 8 slots"),
        (
            decide(queue(ALMOST_FULL), place()),
            Reason.NO_FREE_SLOT,
            "all 8 slots of 1 worker are taken but 1, reserved",
        ),
        (
            decide(queue(engine(in_flight=6, reserved_slots=2)), place()),
            Reason.RESERVED_SLOTS,
            "2 of 8 slots are free, and reserved",
        ),
        (decide(bulk(tier_leases=2), place()), Reason.MAX_SHARE, "its share, 2 slots"),
        (
            decide(bulk(tier_leases=1, tier_kv=200), place()),
            Reason.MAX_SHARE,
            "needs 100 KV tokens; of its tier's share at most 50 are free",
        ),
        (
            decide(queue(engine(kv_used=900)), place()),
            Reason.NO_FREE_KV,
            "needs 100 KV tokens; at most 50 are free",
        ),
        (
            decide(queue(gather_jobs=5, gather_seconds=3, oldest_seconds=1, tier_jobs=2), place()),
            Reason.GATHER_WINDOW,
            "5 jobs of its tier, or 2.0 s; 2 wait",
        ),
        (decide(queue(), place(own_ahead=1)), Reason.FAIR_SHARE, "about 1 job before it"),
        (decide(queue(), place()), Reason.NEXT, "about to take it"),
    ],
)
def test_the_first_reason_that_holds_is_told(found: Waiting, reason: Reason, says: str) -> None:
    assert found.reason is reason
    assert says in found.detail


@pytest.mark.parametrize(
    ("found", "not_reason"),
    [
        (decide(queue(engine(state=WorkerState.LOADING), engine()), place()), Reason.WORKER_LOADING),
        (decide(queue(engine(state=WorkerState.PAUSED), engine()), place()), Reason.WORKER_PAUSED),
        (decide(queue(SHUT, engine()), place()), Reason.WORKER_RUNS_ALONE),
        (decide(queue(ALMOST_FULL, uses_reserve=True), place()), Reason.NO_FREE_SLOT),
        (decide(queue(engine(in_flight=6, reserved_slots=2), uses_reserve=True), place()), Reason.RESERVED_SLOTS),
        (decide(queue(engine(kv_used=900), uses_reserve=True), place()), Reason.NO_FREE_KV),
        (decide(queue(engine(kv_used=900), engine()), place()), Reason.NO_FREE_KV),
        (decide(queue(max_share=0.25, tier_leases=2), place()), Reason.MAX_SHARE),
        (decide(bulk(shared(in_flight=0), tier_leases=9, tier_kv=900), place()), Reason.MAX_SHARE),
        (decide(bulk(shared(), engine(), tier_leases=9), place()), Reason.MAX_SHARE),
        (decide(bulk(tier_leases=0, tier_kv=0), place(kv_tokens=300)), Reason.MAX_SHARE),
        (decide(queue(gather_jobs=5, gather_seconds=3, oldest_seconds=3), place()), Reason.GATHER_WINDOW),
        (decide(queue(caps=(CapUse("tier bulk", 3, 2),)), place()), Reason.IN_FLIGHT_CAP),
    ],
)
def test_what_does_not_hold_the_job_is_not_told(found: Waiting, not_reason: Reason) -> None:
    assert (found.reason, not_reason) == (Reason.NEXT, not_reason)


def test_a_job_of_any_size_fits_an_idle_engine() -> None:
    idle = engine(in_flight=0, kv_used=0)
    assert decide(queue(idle), place(kv_tokens=5000)).reason is Reason.NEXT


def test_an_idle_engine_gathers_nothing() -> None:
    idle = engine(in_flight=0)
    assert decide(queue(engine(), idle, gather_jobs=5, gather_seconds=3), place()).reason is Reason.NEXT


@pytest.mark.parametrize(
    "unknown",
    [
        queue(is_paused=True),
        Queue(name="m.bulk.short"),
        queue(engine(state=WorkerState.PAUSED)),
        queue(engine(state=WorkerState.LOADING)),
    ],
)
def test_no_start_is_promised_where_none_can_be(unknown: Queue) -> None:
    assert decide(unknown, place()).seconds is None


def test_the_start_is_told_by_what_jobs_took_lately() -> None:
    # 7 of 8 slots are for its tier; 14 go at 4 s each before the 14th starts.
    assert decide(queue(FULL), place(own_ahead=13)).seconds == pytest.approx(14 * 4 / 7)


def test_without_a_measure_its_estimate_is_taken() -> None:
    assert decide(queue(FULL, service_seconds=None), place(estimate_seconds=7.0)).seconds == pytest.approx(1.0)


def test_nobody_can_tell_when_a_cap_of_none_ends() -> None:
    closed = queue(caps=(CapUse("queue", 0, 0),))
    assert decide(closed, place()).reason is Reason.IN_FLIGHT_CAP
    assert decide(closed, place()).seconds is None


def test_a_cap_bounds_how_many_start_at_once() -> None:
    capped = queue(caps=(CapUse("queue", 2, 2),))
    assert decide(capped, place(own_ahead=1)).seconds == pytest.approx(2 * 4 / 2)


def test_a_backoff_is_waited_for_at_least() -> None:
    assert decide(queue(), place(backing_off_seconds=9.0)).seconds == 9.0


def test_a_free_slot_is_not_waited_for() -> None:
    assert decide(queue(), place()).seconds == 0
    # 4 of its 7 slots are free: the first four start, the fifth waits for one of them.
    assert decide(queue(), place(own_ahead=3)).seconds == 0
    assert decide(queue(), place(own_ahead=4)).seconds == pytest.approx(4 / 7)


def test_a_share_that_binds_is_what_its_tier_starts_by() -> None:
    assert decide(bulk(tier_leases=2), place(own_ahead=9)).seconds == pytest.approx(10 * 4 / 2)
    assert decide(bulk(tier_leases=2), place(own_ahead=9, tiers_ahead=2)).seconds == pytest.approx(10 * 4 / 2)
    # 60 jobs in one slot.
    narrow = bulk(shared(in_flight=7), max_share=0.1, tier_leases=1)
    assert decide(narrow, place(own_ahead=59)).seconds == pytest.approx(60 * 4)


def test_what_goes_first_of_other_tiers_takes_all_slots_and_not_the_share_alone() -> None:
    full = bulk(shared(in_flight=7), tier_leases=2)
    assert decide(full, place(tiers_ahead=69)).seconds == pytest.approx(70 * 4 / 7)


def test_a_share_that_does_not_bind_counts_for_nothing() -> None:
    alone = queue(FULL, max_share=0.25, tier_leases=8)
    assert decide(alone, place(own_ahead=13)).seconds == pytest.approx(14 * 4 / 7)


def test_a_worker_without_online_work_adds_all_its_slots() -> None:
    both = bulk(shared(in_flight=7), FULL, tier_leases=9)
    assert decide(both, place(own_ahead=17)).seconds == pytest.approx(18 * 4 / (2 + 7))


def test_as_many_run_at_once_as_the_cache_holds() -> None:
    # 950 of the KV tokens are for its tier, and its jobs need 300 each.
    assert decide(queue(FULL, job_kv=300), place(own_ahead=5)).seconds == pytest.approx(6 * 4 / 3)
    assert decide(bulk(tier_leases=1, tier_kv=120, job_kv=120), place(own_ahead=5)).seconds == pytest.approx(
        (6 - 1) * 4 / 2
    )


def test_room_in_the_cache_comes_when_as_many_have_ended_as_hold_it() -> None:
    # 3 run and hold 300 each; 50 are free beside the reserve, and one that ends leaves 300.
    busy = engine(kv_used=900)
    assert decide(queue(busy), place()).seconds == pytest.approx(4 / 3)
    assert decide(queue(busy), place(kv_tokens=400)).seconds == pytest.approx(2 * 4 / 3)
    assert decide(queue(busy), place(kv_tokens=2000)).seconds == pytest.approx(4)


LARGE = engine(name="large", kv_tokens=9000, kv_used=0)
PAUSED = replace(LARGE, state=WorkerState.PAUSED)
SMALL = engine(name="small", in_flight=0, kv_used=0)
TOO_LARGE = place(tokens=5000, kv_tokens=5000)


@pytest.mark.parametrize(
    ("engines", "reason", "says"),
    [
        ((PAUSED, SMALL), Reason.WORKER_PAUSED, "too large for 1 ready worker; large is paused"),
        (
            (replace(LARGE, state=WorkerState.LOADING, kv_tokens=0), SMALL),
            Reason.WORKER_LOADING,
            "too large for 1 ready worker; large is loading",
        ),
        ((PAUSED, replace(SMALL, state=WorkerState.LOADING)), Reason.WORKER_PAUSED, "large is paused"),
    ],
)
def test_a_job_waits_for_the_worker_that_it_is_left_to(
    engines: tuple[Engine, ...], reason: Reason, says: str
) -> None:
    found = decide(queue(*engines), TOO_LARGE)
    assert (found.reason, found.seconds) == (reason, None)
    assert says in found.detail
    assert decide(queue(*engines), place(tokens=100)).reason is not Reason.WORKER_PAUSED


def test_the_slots_of_workers_that_leave_a_job_to_others_are_not_free_for_it() -> None:
    found = decide(queue(replace(LARGE, in_flight=8), SMALL), TOO_LARGE)
    assert found.reason is Reason.NO_FREE_SLOT
    assert found.seconds == pytest.approx(4 / 7)


@pytest.mark.parametrize(
    "engines",
    [
        (LARGE, SMALL),
        (replace(LARGE, state=WorkerState.DRAINING), SMALL),
        (SMALL, replace(SMALL, name="like it")),
    ],
)
def test_what_is_left_to_nobody_is_about_to_be_taken(engines: tuple[Engine, ...]) -> None:
    assert decide(queue(*engines), TOO_LARGE).reason is Reason.NEXT


def test_heavier_tiers_go_first_as_far_as_they_have_jobs() -> None:
    assert ahead_of_other_tiers(ahead=0, weight=1.0, others=[(400.0, 30), (100.0, 200)]) == 30 + 100
    assert ahead_of_other_tiers(ahead=9, weight=400.0, others=[(1.0, 1000), (100.0, 1000)]) == 2
