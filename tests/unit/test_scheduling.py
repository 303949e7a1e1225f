"""What the order promises: shares by weight, nobody starves, short jobs pass only so far, a finish corrects."""

from collections import Counter

import pytest

from inference.scheduling import FairQueue
from tests.unit.fair_queues import WEIGHTS, ask, make_job, publish, take


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
