"""What the order promises: shares by weight, nobody starves, nothing is saved up, short jobs pass only so far."""

from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from inference.guards import Credit, Load, Room, TierTerms
from inference.scheduling import Ask, FairQueue, Taken, Waiting

WEIGHTS = {"realtime": 400.0, "standard": 100.0, "bulk": 1.0}
ALL = frozenset({"short", "medium", "long"})
_numbers = count(1)


def make_job(**overrides: object) -> Waiting:
    fields: dict[str, object] = {
        "job_id": next(_numbers).to_bytes(16, "big"),
        "tier": "standard",
        "tenant": "ann",
        "length": "short",
        "arrival_ms": 0.0,
        "estimate": 1.0,
        "kv_tokens": 100,
    }
    return Waiting(**(fields | overrides))  # type: ignore[arg-type]


def ask(queue: FairQueue, *tiers: str, lengths: Iterable[str] = ALL, **overrides: Any) -> Taken:
    served = tiers or tuple(WEIGHTS)
    fields: dict[str, Any] = {
        "queues": frozenset((tier, length) for tier in served for length in lengths),
        "credit": Credit(1000, 10**9),
        "limit": 1,
        "tiers": {tier: TierTerms(weight) for tier, weight in WEIGHTS.items()},
    }
    return queue.claim(Ask(**(fields | overrides)))


def take(queue: FairQueue, jobs: int = 1, *tiers: str, kv_tokens: int = 10**9) -> list[bytes]:
    return ask(queue, *tiers, limit=jobs, credit=Credit(jobs, kv_tokens)).jobs


def publish(queue: FairQueue, jobs: Iterable[Waiting]) -> dict[bytes, Waiting]:
    published = {job.job_id: job for job in jobs}
    assert all(queue.publish(job) for job in published.values())
    return published


def test_tiers_share_service_by_weight() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tier=tier, estimate=0.5) for tier in WEIGHTS for _ in range(1000)])
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 1002))
    assert taken["realtime"] == pytest.approx(800, abs=2)
    assert taken["standard"] == pytest.approx(200, abs=2)
    assert taken["bulk"] == pytest.approx(2, abs=1)


def test_tenants_share_service_by_weight_and_not_by_jobs() -> None:
    queue = FairQueue({"ann": 3.0})
    small = [make_job(tenant="ann", estimate=0.25) for _ in range(4000)]
    large = [make_job(tenant="bob", estimate=2.0) for _ in range(400)]
    jobs = publish(queue, [*small, *large])
    service: Counter[str] = Counter()
    for job_id in take(queue, 1300):
        service[jobs[job_id].tenant] += jobs[job_id].estimate  # type: ignore[assignment]
    assert service["ann"] / service["bob"] == pytest.approx(3, rel=0.02)


def test_a_weight_changed_while_jobs_wait_acts_at_once() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tenant=tenant) for tenant in ("ann", "bob") for _ in range(500)])
    take(queue, 100)
    queue.set_tenant_weight("bob", 9.0)
    taken = Counter(jobs[job_id].tenant for job_id in take(queue, 100))
    assert taken["bob"] == pytest.approx(90, abs=1)


def test_bulk_is_never_starved_by_realtime() -> None:
    queue = FairQueue()
    bulk = make_job(tier="bulk", tenant="bob")
    publish(queue, [bulk, make_job(tier="realtime")])
    turns = 0
    while bulk.job_id not in take(queue):
        publish(queue, [make_job(tier="realtime")])
        turns += 1
    assert turns <= 401


def test_a_full_backlog_of_bulk_delays_realtime_by_one_job_at_most() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tier="bulk") for _ in range(100)])
    take(queue, 10)
    for _ in range(20):
        urgent = make_job(tier="realtime")
        publish(queue, [urgent])
        assert urgent.job_id in take(queue, 2)


def test_a_late_tenant_behind_a_dump_of_ten_thousand_is_next_but_one() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tenant="ann") for _ in range(10_000)])
    take(queue, 3_000)
    late = make_job(tenant="bob", arrival_ms=60_000.0)
    publish(queue, [late])
    assert late.job_id in take(queue, 2)


def test_every_job_of_a_late_tenant_waits_for_about_one_of_the_dump() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tenant="ann") for _ in range(10_000)])
    for arrival_ms in range(60_000, 90_000, 1000):
        late = make_job(tenant="bob", arrival_ms=float(arrival_ms))
        publish(queue, [late])
        assert late.job_id in take(queue, 2)


def test_an_idle_tenant_saves_nothing_up() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tenant="bob")])
    jobs = publish(queue, [make_job(tenant="ann") for _ in range(2000)])
    take(queue, 1000)
    jobs |= publish(queue, [make_job(tenant="bob") for _ in range(500)])
    taken = Counter(jobs[job_id].tenant for job_id in take(queue, 200))
    assert taken["bob"] == pytest.approx(100, abs=1)


def test_an_idle_tier_saves_nothing_up() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tier="realtime") for _ in range(5000)])
    take(queue, 4000)
    jobs |= publish(queue, [make_job(tier="standard") for _ in range(500)])
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 100))
    assert taken["standard"] == pytest.approx(20, abs=1)


def test_a_tenant_pays_nothing_for_having_been_idle() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tenant="ann", estimate=500.0)])
    take(queue)
    publish(queue, [make_job(tenant="bob") for _ in range(3)])
    take(queue, 3)
    publish(queue, [first := make_job(tenant="cy"), make_job(tenant="ann")])
    assert take(queue, 1) == [first.job_id]


def test_a_group_of_workers_for_bulk_alone_does_not_keep_bulk_from_the_others() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tier=tier) for tier in ("standard", "bulk") for _ in range(2000)])
    take(queue, 1000, "bulk")
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 303, "standard", "bulk"))
    assert taken["bulk"] == pytest.approx(3, abs=1)


def test_a_tier_nobody_serves_does_not_let_others_save_up() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tier="bulk")])
    jobs = publish(queue, [make_job(tier="realtime") for _ in range(2000)])
    take(queue, 1000, "realtime", "standard")
    jobs |= publish(queue, [make_job(tier="standard") for _ in range(500)])
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 100, "realtime", "standard"))
    assert taken["standard"] == pytest.approx(20, abs=1)


@pytest.mark.parametrize(("later_by_ms", "passes"), [(8_999, True), (9_001, False)])
def test_a_short_job_passes_a_long_one_only_if_it_came_soon_after(later_by_ms: int, passes: bool) -> None:
    queue = FairQueue()
    long = make_job(length="long", estimate=10.0)
    short = make_job(estimate=1.0, arrival_ms=float(later_by_ms))
    publish(queue, [long, short])
    assert take(queue, 2) == ([short.job_id, long.job_id] if passes else [long.job_id, short.job_id])


def test_a_worker_of_one_length_takes_only_that() -> None:
    queue = FairQueue()
    publish(queue, [make_job(), long := make_job(length="long", estimate=99.0)])
    assert ask(queue, "standard", lengths=["long"], limit=9).jobs == [long.job_id]


def test_a_released_job_goes_back_to_where_its_arrival_puts_it() -> None:
    queue = FairQueue()
    first, second = make_job(arrival_ms=1.0), make_job(arrival_ms=2.0)
    publish(queue, [first, second])
    take(queue)
    assert queue.release(first.job_id)
    assert take(queue, 2) == [first.job_id, second.job_id]


def test_a_job_is_queued_once_until_it_is_acked() -> None:
    queue = FairQueue()
    job = make_job()
    publish(queue, [job])
    assert not queue.publish(job)
    take(queue)
    assert not queue.publish(job)
    assert queue.ack(job.job_id)
    assert not queue.ack(job.job_id)
    assert queue.publish(job)


def test_a_cancelled_job_is_never_taken() -> None:
    queue = FairQueue()
    job = make_job()
    publish(queue, [job])
    assert queue.cancel(job.job_id)
    assert not queue.cancel(job.job_id)
    assert take(queue, 5) == []


def test_who_was_charged_too_much_gets_it_back_at_the_finish() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tenant=tenant, estimate=10.0) for tenant in ("ann", "bob") for _ in range(9)])
    first, second = take(queue, 2)
    queue.ack(first, used=1.0)
    queue.ack(second, used=10.0)
    assert queue.tenant_passes("standard") == {"ann": 1.0, "bob": 10.0}


def test_a_release_gives_back_what_the_claim_charged() -> None:
    queue = FairQueue()
    publish(queue, [job := make_job(), make_job(tier="realtime", arrival_ms=9.0)])
    take(queue, 2)
    queue.release(job.job_id)
    assert queue.tenant_passes("standard") == {"ann": 0.0}
    assert queue.tier_passes()["standard"] < 1 / 100


def test_what_comes_back_at_the_finish_makes_an_idle_tenant_save_nothing_up() -> None:
    queue = FairQueue()
    publish(queue, [large := make_job(tenant="bob", estimate=500.0)])
    take(queue)
    jobs = publish(queue, [make_job(tenant="ann") for _ in range(2000)])
    take(queue, 400)
    queue.ack(large.job_id, used=1.0)
    jobs |= publish(queue, [make_job(tenant="bob") for _ in range(500)])
    taken = Counter(jobs[job_id].tenant for job_id in take(queue, 200))
    assert taken["bob"] == pytest.approx(100, abs=1)


def test_what_comes_back_at_the_finish_makes_a_tier_that_was_idle_save_nothing_up() -> None:
    queue = FairQueue()
    jobs = publish(queue, [large := make_job(tier="realtime", estimate=40_000.0)])
    take(queue)
    jobs |= publish(queue, [make_job() for _ in range(3000)])
    take(queue, 2000)
    queue.ack(large.job_id, used=1.0)
    jobs |= publish(queue, [make_job(tier="realtime") for _ in range(2000)])
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 100))
    assert taken["standard"] == pytest.approx(20, abs=1)


def test_a_tenant_whose_only_work_is_paused_saves_nothing_up_and_lets_nobody_save_up() -> None:
    queue, paused = FairQueue(), frozenset({("standard", "long")})
    jobs = publish(queue, [make_job(tenant="held", length="long") for _ in range(900)])
    jobs |= publish(queue, [make_job(tenant="ann") for _ in range(3000)])
    ask(queue, "standard", limit=1000, paused=paused)
    jobs |= publish(queue, [make_job(tenant="new") for _ in range(900)])
    taken = Counter(jobs[job_id].tenant for job_id in ask(queue, "standard", limit=200, paused=paused).jobs)
    assert taken["new"] == pytest.approx(100, abs=2)
    taken = Counter(jobs[job_id].tenant for job_id in ask(queue, "standard", limit=300).jobs)
    assert taken["held"] == pytest.approx(100, abs=2)


def test_a_tier_at_its_cap_saves_nothing_up() -> None:
    queue, cap = FairQueue(), (frozenset(("realtime", length) for length in ALL), 1)
    jobs = publish(queue, [make_job(tier=tier) for tier in ("realtime", "standard") for _ in range(3000)])
    ask(queue, limit=1000, caps=(cap,))
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 100))
    assert taken["standard"] == pytest.approx(20, abs=1)


def test_no_more_is_taken_than_a_cap_leaves_over_all_workers() -> None:
    queue, cap = FairQueue(), (frozenset({("standard", "short"), ("bulk", "short")}), 5)
    publish(queue, [make_job(tier=tier) for tier in ("standard", "bulk") for _ in range(9)])
    first = ask(queue, limit=3, caps=(cap,)).jobs
    assert len(first) == 3
    assert len(ask(queue, limit=9, caps=(cap,)).jobs) == 2
    queue.ack(first[0])
    assert len(ask(queue, limit=9, caps=(cap,)).jobs) == 1


def test_the_reserve_is_for_tiers_that_use_it() -> None:
    queue = FairQueue()
    publish(queue, [make_job(tier=tier) for tier in ("standard", "realtime") for _ in range(9)])
    terms = {"realtime": TierTerms(1.0, uses_reserve=True), "standard": TierTerms(1000.0)}
    credit = Credit(6, 600, reserve=Room(2, 0))
    taken = ask(queue, limit=9, tiers=terms, credit=credit)
    assert len(taken.jobs) == 6
    assert ask(queue, "standard", limit=9, tiers=terms, credit=Credit(2, 900, reserve=Room(2, 0))).jobs == []
    assert len(ask(queue, "standard", limit=9, tiers=terms, credit=Credit(9, 400, reserve=Room(0, 200))).jobs) == 2


def test_a_share_binds_while_online_work_waits_or_came_lately_and_not_after() -> None:
    queue = FairQueue()
    for job in [make_job(tier="bulk") for _ in range(9)]:
        queue.publish(job, 0)
    terms = {"bulk": TierTerms(1.0, share=Room(2, 10**6))}
    assert len(ask(queue, limit=3, tiers=terms).jobs) == 3, "nothing online came yet"
    queue.publish(online := make_job(), 1_000)
    assert ask(queue, limit=9, tiers=terms, now_ms=1_000).jobs[0] == online.job_id
    assert len(ask(queue, limit=9, tiers=terms, now_ms=10_999).jobs) == 2
    assert len(ask(queue, limit=9, tiers=terms, now_ms=11_001).jobs) == 2


def test_a_job_that_does_not_fit_is_passed_for_a_bounded_time_and_then_parked() -> None:
    queue = FairQueue()
    large, *small = [make_job(kv_tokens=5000), *(make_job(kv_tokens=10, arrival_ms=1.0) for _ in range(9))]
    publish(queue, [large, *small])
    queue.publish(make_job(tenant="bob", kv_tokens=10))
    credit = Credit(9, 4999, may_park=True)
    passed = ask(queue, credit=credit, now_ms=1_000)
    assert (len(passed.jobs), passed.parked, passed.again_ms) == (1, None, 2_000)
    assert ask(queue, credit=Credit(9, 4999), now_ms=3_000).parked is None, "it has one already"
    parked = ask(queue, limit=9, credit=credit, now_ms=3_000)
    assert (parked.jobs, parked.parked) == ([large.job_id], large.job_id)


def test_a_short_job_of_the_same_tenant_passes_a_long_one_that_does_not_fit() -> None:
    queue = FairQueue()
    publish(queue, [make_job(length="long", kv_tokens=5000), short := make_job(arrival_ms=9.0)])
    assert take(queue, 2, kv_tokens=400) == [short.job_id]


def test_a_busy_worker_gathers_and_an_idle_one_does_not_wait() -> None:
    queue, busy = FairQueue(), Load(in_flight=1, slots=0)
    publish(queue, [make_job(arrival_ms=1_000.0) for _ in range(3)])
    terms = {"standard": TierTerms(1.0, gather_jobs=4, gather_seconds=0.05)}
    gathering = ask(queue, limit=1, tiers=terms, load=busy, now_ms=1_020)
    assert (gathering.jobs, gathering.again_ms) == ([], 30)
    assert len(ask(queue, limit=1, tiers=terms, now_ms=1_020).jobs) == 1
    assert len(ask(queue, limit=1, tiers=terms, load=busy, now_ms=1_050).jobs) == 1
    publish(queue, [make_job(arrival_ms=1_050.0) for _ in range(4)])
    assert len(ask(queue, limit=1, tiers=terms, load=busy, now_ms=1_051).jobs) == 1


def spread(waiting: int, *loads: int, slots: int = 64) -> list[int]:
    """Jobs that workers have after each claimed once, in order, all heard a moment before."""
    queue = FairQueue()
    for number, load in enumerate(loads):
        ask(queue, worker=f"w{number}", load=Load(load, slots), credit=Credit(slots - load, 10**9))
    publish(queue, [make_job() for _ in range(waiting)])
    after = []
    for number, load in enumerate(loads):
        credit = Credit(slots - load, 10**9)
        asked: dict[str, Any] = {"worker": f"w{number}", "load": Load(load, slots), "now_ms": 900}
        after.append(load + len(ask(queue, limit=64, credit=credit, **asked).jobs))
    return after


def test_a_burst_spreads_over_idle_workers() -> None:
    assert spread(8, 0, 0, 0, 0) == [2, 2, 2, 2]
    assert spread(200, 0, 0, 0, 0) == [50, 50, 50, 50]
    assert spread(1000, 0, 0, 0, 0) == [64, 64, 64, 64]


def test_the_least_loaded_are_filled_up_first_and_nobody_goes_with_nothing() -> None:
    assert spread(20, 30, 10, 10) == [31, 20, 19]
    assert spread(1, 5) == [6]


def test_who_took_its_part_leaves_the_rest_to_the_others_unless_they_are_not_heard_any_more() -> None:
    queue = FairQueue()
    idle: dict[str, Any] = {"credit": Credit(8, 10**9), "limit": 8}
    for worker in ("w0", "w1"):
        ask(queue, worker=worker, load=Load(0, 8), **idle)
    publish(queue, [make_job() for _ in range(8)])
    first = ask(queue, worker="w0", load=Load(0, 8), now_ms=10, **idle)
    assert (len(first.jobs), first.again_ms) == (4, 25)
    again: dict[str, Any] = {"worker": "w0", "load": Load(4, 8), "credit": Credit(4, 10**9), "limit": 8}
    assert ask(queue, now_ms=20, **again).jobs == []
    assert len(ask(queue, now_ms=60, **again).jobs) == 1
    assert len(ask(queue, now_ms=1_101, **again).jobs) == 3, "a stalled one holds nobody back"


def test_who_is_woken_for_a_job_takes_it_although_others_have_less() -> None:
    queue = FairQueue()
    for worker in ("w0", "w1"):
        ask(queue, worker=worker, load=Load(0, 8), now_ms=1)
    for now_ms in (10, 20):
        publish(queue, [make_job()])
        load = Load(now_ms // 10, 8)
        assert len(ask(queue, worker="w0", load=load, now_ms=now_ms).jobs) == 1
        assert ask(queue, worker="w0", load=load, now_ms=now_ms + 1).jobs == []


def test_a_tier_that_is_new_to_the_shared_workers_comes_beside_the_others() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tier=tier) for tier in WEIGHTS for _ in range(2000)])
    ask(queue, "realtime", "bulk", limit=1500)
    taken = Counter(jobs[job_id].tier for job_id in take(queue, 100))
    assert taken["standard"] == pytest.approx(20, abs=1)


def test_a_tier_that_shared_workers_left_alone_for_a_while_saved_nothing_up() -> None:
    queue = FairQueue()
    jobs = publish(queue, [make_job(tier=tier) for tier in WEIGHTS for _ in range(5000)])
    ask(queue, limit=10, now_ms=1_000)
    ask(queue, "realtime", "bulk", limit=3000, now_ms=60_000)
    taken = Counter(jobs[job_id].tier for job_id in ask(queue, limit=100, now_ms=61_000).jobs)
    assert taken["standard"] == pytest.approx(20, abs=1)
