"""When waiting jobs are expected to start, told from rows and a real broker."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inference import halts, lifecycle, paces, selectors
from inference.broker import Broker
from inference.models import Job, JobEvent, Tier
from inference.states import JobEventKind, WorkerState
from inference.waiting import Reason
from tests import factories
from tests.integration.outlooks import QUEUE, claim, publish, report, run, why


@dataclass(frozen=True)
class Told:
    """In how many seconds a job is told to start: by the clock after it was asked for, and by that before."""

    least: float
    most: float


def told(job: Job) -> Told:
    before = timezone.now()
    start = why(job).expected_start
    assert start is not None
    return Told((start - timezone.now()).total_seconds(), (start - before).total_seconds())


def finish_one(seconds: float) -> None:
    """Have one job end that took so long."""
    began = timezone.now() - timedelta(seconds=60)
    job, token = factories.make_running_job()
    Job.objects.filter(pk=job.pk).update(started_at=began)
    lifecycle.apply([factories.make_success(token)], now=began + timedelta(seconds=seconds))


def test_a_share_that_binds_is_what_the_wait_is_told_by(sluice: Broker) -> None:
    Tier.objects.filter(name="bulk").update(max_share=0.1)
    finish_one(10)
    report(kv_capacity_tokens=10**6)
    publish()
    assert len(claim(sluice, 1)) == 1
    run(sluice, 1, tier="bulk")
    *_, last = publish(6, tier="bulk")
    # One slot of eight is bulk's: 60 s, not 6 / 7 of 10 s.
    found = told(last)
    assert found.least <= 60.1
    assert found.most >= 59.9
    rows = {row.queue: row for row in selectors.queue_rows()}
    bulk = rows[f"{factories.MODEL}.bulk.short"]
    assert bulk.waiting_reason == "max_share"
    assert bulk.expected_wait_seconds == pytest.approx(70)


@pytest.mark.parametrize(
    ("state", "kv", "reason"),
    [
        (WorkerState.PAUSED, 10**6, Reason.WORKER_PAUSED),
        (WorkerState.LOADING, 0, Reason.WORKER_LOADING),
        (WorkerState.READY, 10**6, Reason.NEXT),
        (WorkerState.DRAINING, 10**6, Reason.NEXT),
    ],
)
def test_of_a_job_that_only_a_larger_worker_takes(
    sluice: Broker, state: WorkerState, kv: int, reason: Reason
) -> None:
    report(name="large", state=state, kv_capacity_tokens=kv)
    report(name="small", kv_capacity_tokens=100)
    [job] = publish(prompt_tokens=500)
    found = why(job)
    assert (found.reason, found.expected_start is None) == (reason, reason is not Reason.NEXT)
    assert ("too large for 1 ready worker; large is" in found.detail) == (reason is not Reason.NEXT)
    [row] = [row for row in selectors.queue_rows() if row.queue == QUEUE]
    assert (row.waiting_reason, row.expected_wait_seconds is None) == (reason, False), "other jobs are taken"


def test_room_in_the_cache_is_not_expected_before_something_ends(sluice: Broker) -> None:
    finish_one(10)
    report(kv_used_tokens=900)
    run(sluice, 2)
    [job] = publish(prompt_tokens=100)
    assert why(job).reason is Reason.NO_FREE_KV
    found = told(job)
    assert found.least <= 5.1
    assert found.most >= 4.9


def test_the_start_goes_by_what_jobs_took_lately(sluice: Broker) -> None:
    finish_one(14)
    report()
    run(sluice, 8)
    [waits] = publish()
    found = told(waits)
    assert paces.read(factories.MODEL, "standard").took_seconds == pytest.approx(14, abs=0.1)
    # One of the seven slots that its tier may take is free every 14 / 7 seconds.
    assert found.least <= 2.1
    assert found.most > 0


def begin(count: int, *, seconds_ago: float, **fields: Any) -> None:
    """Have jobs on record as running since then; done last, since it is longer ago with all that comes after."""
    jobs = [factories.make_running_job(**fields)[0].pk for _ in range(count)]
    Job.objects.filter(pk__in=jobs).update(started_at=timezone.now() - timedelta(seconds=seconds_ago))


def wait_of_a_new_job() -> float:
    [row] = [row for row in selectors.queue_rows() if row.queue == QUEUE]
    assert row.expected_wait_seconds is not None
    return row.expected_wait_seconds


def test_a_burst_of_long_jobs_after_short_ones_is_not_told_by_the_short_ones(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6, ready_at=timezone.now() - timedelta(seconds=300))
    run(sluice, 8)
    jobs = publish(70)
    begin(8, seconds_ago=20)
    # 71 jobs in 7 slots, where eight have run for 20 s and none ended: ten times that, not ten times 2 s.
    assert wait_of_a_new_job() == pytest.approx(71 / 7 * 20, rel=0.1)
    assert told(jobs[69]).most > 190


def test_long_jobs_of_another_tier_do_not_make_those_of_this_one_longer(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6)
    run(sluice, 8)
    publish(70)
    begin(4, seconds_ago=100, tier="bulk")
    begin(4, seconds_ago=0)
    assert wait_of_a_new_job() == pytest.approx(71 / 7 * 2, rel=0.1)


def test_a_tier_of_which_none_runs_waits_for_what_runs(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6)
    run(sluice, 8, tier="bulk")
    publish(70)
    begin(8, seconds_ago=20, tier="bulk")
    assert wait_of_a_new_job() == pytest.approx(71 / 7 * 20, rel=0.1)


def test_a_start_that_did_not_come_is_put_off(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6, ready_at=timezone.now() - timedelta(seconds=300))
    run(sluice, 8)
    begin(8, seconds_ago=20)
    [first] = publish(created_at=timezone.now() - timedelta(seconds=15))
    # 2 / 7 s by what ended; nothing has started for as long as it waits.
    assert told(first).most > 14
    assert told(first).least < 18


def test_jobs_that_are_estimated_longer_than_those_that_ended_are_told_longer(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6)
    run(sluice, 8)
    publish(70, estimate_seconds=10.0)
    assert wait_of_a_new_job() == pytest.approx(71 / 7 * 20, rel=0.1)


def test_a_line_that_has_waited_for_half_a_minute_is_told_by_what_started(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6, ready_at=timezone.now() - timedelta(seconds=300))
    run(sluice, 8)
    publish(70, created_at=timezone.now() - timedelta(seconds=40))
    # The eight claims of the last half minute, not one of 71 every 2 / 7 s.
    assert 71 / 8 * 29 < wait_of_a_new_job() < 71 / 8 * 33


def test_what_started_before_a_pause_ended_does_not_tell(sluice: Broker) -> None:
    finish_one(2)
    report(kv_capacity_tokens=10**6, ready_at=timezone.now() - timedelta(seconds=300))
    run(sluice, 8)
    publish(70, created_at=timezone.now() - timedelta(seconds=40))
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    halts.halt_queues(halts.Action.RESUME, [QUEUE], by="user ann")
    assert wait_of_a_new_job() == pytest.approx(71 / 7 * 2, rel=0.1)


def test_a_burst_of_new_jobs_leaves_what_the_last_ones_took(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paces, "MAX_AGE_SECONDS", -1.0)
    finish_one(14)
    assert paces.read(factories.MODEL, "standard").took_seconds == pytest.approx(14, abs=0.1)
    job = factories.make_job()
    JobEvent.objects.bulk_create([JobEvent(job=job, kind=JobEventKind.QUEUED)] * paces.ROWS_READ)
    assert paces.read(factories.MODEL, "standard").took_seconds == pytest.approx(14, abs=0.1)
