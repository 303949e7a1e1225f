"""What holds jobs back at a claim: caps, reserve, shares, room, gathering, and other workers' parts."""

from typing import Any

from inference.guards import Credit, Load, Room, TierTerms
from inference.scheduling import FairQueue
from tests.unit.fair_queues import ask, make_job, publish, take


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


def test_a_job_larger_than_the_share_is_not_parked_but_empties_its_tier_here_and_then_runs() -> None:
    queue = FairQueue()
    large, *small = [
        make_job(tier="bulk", kv_tokens=5000),
        *(make_job(tier="bulk", tenant="bob", kv_tokens=10, arrival_ms=1.0) for _ in range(9)),
    ]
    queue.publish(online := make_job(), 0)  # it came lately, so that the share binds
    assert ask(queue).jobs == [online.job_id]
    publish(queue, [large, *small])
    credit = Credit(9, 10**5, may_park=True)

    def bulk(now_ms: int, *, share: int) -> tuple[list[bytes], bytes | None]:
        terms = {"bulk": TierTerms(1.0, share=Room(4, share)), "standard": TierTerms(100.0)}
        taken = ask(queue, tiers=terms, credit=credit, now_ms=now_ms)
        return taken.jobs, taken.parked

    assert bulk(1_000, share=1_000) == ([small[0].job_id], None), "others of the tier pass it at first"
    assert bulk(2_999, share=1_000) == ([small[1].job_id], None)
    assert bulk(3_001, share=1_000) == ([], None), "then they do not, and it is not parked: the room is there"
    assert bulk(4_000, share=10**6) == ([large.job_id], None), "what the tier may hold once it holds nothing"


def test_a_job_that_can_never_fit_here_is_left_to_a_larger_worker_if_there_is_one() -> None:
    queue, served = FairQueue(), ("standard", "short")
    publish(queue, [large := make_job(kv_tokens=5000), make_job(tenant="bob", kv_tokens=10)])
    small: dict[str, Any] = {"limit": 9, "whole_tokens": 4999, "credit": Credit(9, 10**5, may_park=True)}
    for now_ms in (0, 10_000):
        left = ask(queue, larger=frozenset({served}), now_ms=now_ms, **small)
        assert (large.job_id in left.jobs, left.parked, left.again_ms) == (False, None, None)
    assert ask(queue, larger=frozenset({("bulk", "short")}), **small).jobs == [large.job_id], "to be refused"
    queue.release(large.job_id, 20_000)
    assert ask(queue, limit=9, larger=frozenset({served}), whole_tokens=5000).jobs == [large.job_id]


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


def test_what_filled_a_gather_window_is_let_go_to_all_workers_and_what_comes_later_gathers_anew() -> None:
    queue, slots = FairQueue(), 8
    terms = {"standard": TierTerms(1.0, gather_jobs=4, gather_seconds=20.0)}

    def taken(worker: str, now_ms: int, *, busy: int = 1) -> int:
        room: dict[str, Any] = {"load": Load(busy, slots), "credit": Credit(slots - busy, 10**9)}
        return len(ask(queue, worker=worker, now_ms=now_ms, limit=slots, tiers=terms, **room).jobs)

    assert (taken("w0", 900), taken("w1", 900)) == (0, 0), "each is heard of"
    publish(queue, [make_job(arrival_ms=1_000.0 + n) for n in range(4)])
    assert taken("w0", 1_010) == 2, "its part"
    assert taken("w1", 1_012) == 2, "the other's part does not gather again"
    publish(queue, [make_job(arrival_ms=3_000.0) for _ in range(3)])
    assert (taken("w0", 3_001), taken("w1", 3_001)) == (0, 0)
    publish(queue, [make_job(arrival_ms=3_002.0)])
    assert taken("w0", 3_003, busy=0) > 0
    assert taken("w1", 3_004) > 0, "an idle worker lets the window go likewise"


def spread(waiting: int, *loads: int, slots: int = 64, cap: int | None = None) -> list[int]:
    """Jobs that workers have after each claimed once, in order, all heard a moment before."""
    queue = FairQueue()
    for number, load in enumerate(loads):
        ask(queue, worker=f"w{number}", load=Load(load, slots), credit=Credit(slots - load, 10**9))
    publish(queue, [make_job() for _ in range(waiting)])
    after = []
    for number, load in enumerate(loads):
        credit = Credit(slots - load, 10**9)
        asked: dict[str, Any] = {"worker": f"w{number}", "load": Load(load, slots), "now_ms": 900}
        if cap is not None:
            asked["caps"] = ((frozenset({("standard", "short"), ("standard", "long")}), cap),)
        after.append(load + len(ask(queue, limit=64, credit=credit, **asked).jobs))
    return after


def test_a_burst_spreads_over_idle_workers() -> None:
    assert spread(8, 0, 0, 0, 0) == [2, 2, 2, 2]
    assert spread(200, 0, 0, 0, 0) == [50, 50, 50, 50]
    assert spread(1000, 0, 0, 0, 0) == [64, 64, 64, 64]


def test_of_a_burst_as_much_spreads_as_a_cap_lets_run() -> None:
    assert spread(44, 0, 0, slots=32, cap=16) == [8, 8]
    assert spread(16, 0, 0, slots=32, cap=16) == [8, 8]
    assert spread(3, 0, 0, slots=32, cap=16) == [2, 1]


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
