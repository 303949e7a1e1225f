"""Nothing is saved up: whoever was idle, alone, paused or capped comes beside the others, not before them."""

from collections import Counter

import pytest

from inference.scheduling import FairQueue
from tests.unit.fair_queues import ALL, WEIGHTS, ask, make_job, publish, take


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
