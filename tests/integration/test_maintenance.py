"""What a worker left behind is cleared up: its leases, Celery's messages and itself."""

import json
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.utils import timezone

from inference import fleet, lifecycle, maintenance, retries
from inference.broker import Broker, BrokerAway, Token
from inference.models import Job, Worker
from inference.states import JobStatus
from tests import factories
from tests.waiting import until

LEASE_SECONDS = 0.05


def claim(broker: Broker, queue: str, lease_seconds: float = LEASE_SECONDS) -> Token:
    return factories.claim(broker, queue, lease_seconds=lease_seconds).token


def run_under_a_dying_worker(broker: Broker, job: Job, *, lease_seconds: float = LEASE_SECONDS) -> Token:
    factories.publish(job)
    until(lambda: broker.due(lease_seconds=60) or broker.client.zcard(f"{broker.prefix}d:{job.queue}") == 0)
    token = claim(broker, job.queue, lease_seconds)
    lifecycle.apply([lifecycle.Start(token, "worker-1")])
    return token


@pytest.fixture
def short_lease(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> Broker:
    """A broker whose server has been up for more than a lease, so that leases may be reaped."""
    monkeypatch.setattr("django.conf.settings.LEASE_SECONDS", LEASE_SECONDS)
    monkeypatch.setattr(retries, "FAULT_BACKOFF", retries.Backoff(0.001, 0.001))
    until(lambda: sluice.client.info("server")["uptime_in_seconds"] >= 1)
    return sluice


def reaped() -> int:
    return until(maintenance.reap)


def test_a_job_whose_lease_ran_out_waits_again_with_its_first_arrival(short_lease: Broker) -> None:
    job = factories.make_job(created_at=timezone.now() - timedelta(seconds=60))
    run_under_a_dying_worker(short_lease, job)

    assert reaped() == 1
    job.refresh_from_db()
    [stats] = short_lease.stats([job.queue])
    assert (job.status, job.attempts, job.claim_id) == ("queued", 1, None)
    assert (stats.jobs, stats.leases) == (1, 0)
    assert stats.oldest_arrival_ms == round(job.created_at.timestamp() * 1000)


def test_a_live_lease_is_left_alone(short_lease: Broker) -> None:
    run_under_a_dying_worker(short_lease, factories.make_job(), lease_seconds=60)

    assert maintenance.reap() == 0


def test_a_job_that_was_rescued_too_often_fails_and_leaves_the_queue(short_lease: Broker) -> None:
    job = factories.make_job()
    for _ in range(3):
        run_under_a_dying_worker(short_lease, job)
        assert reaped() == 1

    job.refresh_from_db()
    assert (job.status, job.error_code) == ("failed", "attempts_exhausted")
    assert short_lease.held([job.id]) == set()


def test_a_claim_whose_start_was_never_committed_goes_back_without_an_attempt(short_lease: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    claim(short_lease, job.queue)

    assert reaped() == 1
    job.refresh_from_db()
    [stats] = short_lease.stats([job.queue])
    assert (job.status, job.attempts, stats.jobs) == ("queued", 0, 1)


def test_a_lease_left_by_a_finished_job_is_dropped(short_lease: Broker) -> None:
    job = factories.make_job()
    token = run_under_a_dying_worker(short_lease, job)
    lifecycle.apply([factories.make_success(token)])

    assert reaped() == 1
    job.refresh_from_db()
    assert (job.status, short_lease.held([job.id])) == ("succeeded", set())


def test_a_leftover_lease_of_another_claim_is_dropped_and_the_job_runs_on(short_lease: Broker) -> None:
    job, token = factories.make_running_job()
    factories.publish(job)
    claim(short_lease, job.queue)

    assert reaped() == 1
    job.refresh_from_db()
    assert (job.status, job.claim_id, short_lease.held([job.id])) == ("running", token.claim_id, set())


def test_of_two_reapers_at_once_one_stands_back(short_lease: Broker) -> None:
    run_under_a_dying_worker(short_lease, factories.make_job())
    until(lambda: short_lease.due(lease_seconds=LEASE_SECONDS))

    with short_lease.lock("reap", seconds=10) as is_ours:
        assert is_ours
        assert maintenance.reap() == 0
    assert maintenance.reap() == 1


def test_silent_workers_are_forgotten_and_heard_ones_stay(sluice: Broker) -> None:
    now = timezone.now()
    fleet.report(factories.make_report(name="gone"), now=now - timedelta(seconds=61))
    fleet.report(factories.make_report(name="silent"), now=now - timedelta(seconds=59))

    assert maintenance.prune_workers(now) == 1
    assert list(Worker.objects.values_list("name", flat=True)) == ["silent"]


def test_a_due_celery_task_goes_back_to_its_queue(short_lease: Broker) -> None:
    short_lease.publish_task("control", factories.make_new_job().id, b"{}")
    claim(short_lease, "control")

    assert reaped() == 1
    assert claim(short_lease, "control")


def test_one_lease_that_breaks_the_script_does_not_keep_the_others_from_their_rescue(
    short_lease: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, other = factories.make_job(), factories.make_job()
    tokens = [run_under_a_dying_worker(short_lease, job) for job in (broken, other)]
    until(lambda: len(short_lease.due(lease_seconds=LEASE_SECONDS)) == 2)
    release = Broker.release

    def breaks(self: Broker, token: Token, **options: Any) -> bool:
        if token == tokens[0]:
            raise redis.ResponseError("user_script:7: attempt to index a nil value")
        return release(self, token, **options)

    monkeypatch.setattr(Broker, "release", breaks)
    assert maintenance.reap() == 2
    assert (short_lease.stats([other.queue])[0].jobs, short_lease.stats([other.queue])[0].leases) == (1, 1)
    said = [vars(record) for record in caplog.records if getattr(record, "action", "") == "settle_failed"]
    assert [record["job_id"] for record in said] == [broken.id]


def test_a_celery_task_that_kills_its_worker_each_time_is_dropped_loudly(
    short_lease: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    body = json.dumps({"headers": {"task": "inference.reconcile"}, "body": "what it is handed"}).encode()
    short_lease.publish_task("control", factories.make_new_job().id, body)
    for _ in range(retries.MAX_TASK_DEATHS):
        claim(short_lease, "control")
        assert reaped() == 1

    [stats] = short_lease.stats(["control"])
    assert (stats.jobs, stats.leases) == (0, 0)
    [said] = [record for record in caplog.records if getattr(record, "action", "") == "task_dropped"]
    assert (said.levelname, vars(said)["task"], vars(said)["count"]) == ("ERROR", "inference.reconcile", 3)
    assert "handed" not in str(vars(said))


def test_a_message_that_nobody_can_read_is_dropped_likewise(short_lease: Broker) -> None:
    short_lease.publish_task("control", factories.make_new_job().id, b"not even json")
    for _ in range(retries.MAX_TASK_DEATHS):
        claim(short_lease, "control")
        assert reaped() == 1

    assert short_lease.stats(["control"])[0].jobs == 0


def test_a_rescued_job_is_kept_from_the_claims_for_a_while(
    short_lease: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "FAULT_BACKOFF", retries.Backoff(1000, 1000))
    job = factories.make_job()
    run_under_a_dying_worker(short_lease, job)
    assert reaped() == 1

    assert short_lease.due(lease_seconds=60) == []
    with pytest.raises(ValueError, match="not enough values"):
        claim(short_lease, job.queue)
    assert short_lease.stats([job.queue])[0].jobs == 1


def test_a_reaper_without_redis_says_so(without_redis: None) -> None:
    with pytest.raises(BrokerAway):
        maintenance.reap()

    assert JobStatus.QUEUED not in Job.objects.values_list("status", flat=True)
