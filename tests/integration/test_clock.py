"""What one machine writes and another subtracts goes by Redis' clock, so a host may be an hour off."""

import os
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from inference import broker as broker_module
from inference import clock, fleet, halts, lifecycle, maintenance, selectors
from inference.broker import Broker
from inference.models import Job, QueueLimit, Worker
from inference.reconciliation import Reconciler
from inference.states import JobStatus
from tests import factories
from tests.integration import broker_jobs

HOURS = (-1, 1)
SECOND = timedelta(seconds=1)


@pytest.fixture(params=HOURS)
def wrong(sluice: Broker, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> datetime:
    """Give this host, which Django and all of us ask, a clock that is an hour off; return what it shows."""
    clock.forget()
    shown = timezone.now() + timedelta(hours=request.param)
    monkeypatch.setattr(timezone, "now", lambda: shown)
    return shown


def server_time(broker: Broker) -> datetime:
    return datetime.fromtimestamp(int(broker.client.time()[0]), UTC)


def test_a_host_with_a_wrong_clock_reports_by_the_servers(sluice: Broker, wrong: datetime) -> None:
    fleet.report(factories.make_report())

    assert abs(Worker.objects.get().heartbeat_at - server_time(sluice)) < 60 * SECOND


def test_who_looks_with_a_wrong_clock_sees_who_is_alive_and_who_is_not(sluice: Broker, wrong: datetime) -> None:
    now = server_time(sluice)
    fleet.report(factories.make_report(name="a-heard"), now=now)
    fleet.report(factories.make_report(name="b-silent"), now=now - 40 * SECOND)
    fleet.report(factories.make_report(name="c-gone"), now=now - 3600 * SECOND)

    assert [row.stale for row in selectors.worker_rows()] == [False, True, True]
    assert maintenance.prune_workers(clock.now()) == 1


def test_a_pause_is_noted_by_the_servers_clock(sluice: Broker, wrong: datetime) -> None:
    queue = f"{factories.MODEL}.bulk.long"
    for action in (halts.Action.PAUSE, halts.Action.RESUME):
        halts.halt_queues(action, [queue], by="ann")

    resumed_at = QueueLimit.objects.get().resumed_at
    assert resumed_at is not None
    assert abs(resumed_at - server_time(sluice)) < 60 * SECOND


def test_the_age_of_a_backlog_is_by_one_clock(sluice: Broker, wrong: datetime) -> None:
    factories.publish(factories.make_job(created_at=server_time(sluice) - 60 * SECOND))

    assert 59 <= max(row.backlog_seconds for row in selectors.queue_rows()) < 600


@pytest.mark.parametrize("hours", HOURS)
def test_a_wrong_clock_expires_no_job_that_a_cold_start_delayed(sluice: Broker, hours: int) -> None:
    """The maintenance's, or the claiming worker's. The job came long ago, the worker is ready since lately."""
    now = server_time(sluice)
    fleet.report(factories.make_report(ready_at=now - 200 * SECOND))
    delayed = factories.make_job(created_at=now - timedelta(hours=2))
    factories.publish(delayed)
    wrong = timezone.now() + timedelta(hours=hours)

    assert maintenance.expire(wrong) == 0
    start = lifecycle.Start(factories.make_token(delayed.pk), "worker-1")
    assert lifecycle.apply([start], now=wrong)[0].status is JobStatus.RUNNING


@pytest.mark.parametrize("is_spilled", [False, True])
def test_a_wrong_clock_expires_no_job_that_was_just_let_in(sluice: Broker, *, is_spilled: bool) -> None:
    """Its row is written by a host whose clock is slow; who looks next has the right one."""
    now = server_time(sluice)
    fleet.report(factories.make_report(ready_at=now - 7200 * SECOND))
    job = factories.make_job(created_at=now - timedelta(hours=1), is_spilled=is_spilled)
    broker_jobs.admit(sluice, job.queue, [job.pk])

    assert maintenance.expire(timezone.now()) == 0
    Job.objects.update(status=JobStatus.QUEUED)
    assert Reconciler().run(timezone.now()).published == 1
    start = lifecycle.Start(factories.make_token(job.pk), "worker-1", factories.claim(sluice, job.queue).waited)
    assert lifecycle.apply([start])[0].status is JobStatus.RUNNING


def test_while_redis_is_away_the_clock_goes_on_as_it_was(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    clock.forget()
    before = clock.now()
    monkeypatch.setattr(clock, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(timezone, "now", lambda: before + timedelta(hours=1))
    away = Broker(broker_module.connect("redis://127.0.0.1:1/0"), prefix=sluice.prefix)
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): away})

    assert before <= clock.now() < before + 60 * SECOND
    clock.forget()
    assert clock.now() == before + timedelta(hours=1), "there never was another one"
    clock.forget()
