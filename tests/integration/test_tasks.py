"""Celery's way in."""

import logging
import time
from datetime import timedelta

import kombu
import pytest
import redis
from celery import beat, current_app
from celery.schedules import schedule
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from inference import control, fleet, maintenance, tasks
from inference.broker import Broker
from inference.models import Job, Worker
from inference.routing import CONTROL_QUEUE
from project import celeryconfig
from project.beat import Scheduler
from project.stack import ports
from tests import factories


def test_a_job_that_reaches_a_pool_without_an_engine_fails_loudly() -> None:
    with pytest.raises(RuntimeError, match="no engine"):
        tasks.run_job()


def test_jobs_are_known_to_celery_by_one_name() -> None:
    assert current_app.tasks[tasks.RUN_JOB] is not None


@pytest.mark.parametrize("entry", celeryconfig.beat_schedule.values(), ids=lambda entry: entry["task"])
def test_whatever_beat_sends_is_a_task_that_goes_to_the_control_queue(entry: dict[str, object]) -> None:
    assert entry["task"] in current_app.tasks
    assert current_app.conf.task_default_queue == CONTROL_QUEUE


def test_flower_is_told_of_jobs_and_not_of_what_beat_sends() -> None:
    periodic = {str(entry["task"]) for entry in celeryconfig.beat_schedule.values()}

    assert [name for name in periodic if current_app.tasks[name].send_events] == []
    assert current_app.tasks[tasks.RUN_JOB].send_events
    assert not current_app.conf.task_send_sent_event


def test_dead_workers_jobs_are_looked_for_often_enough() -> None:
    assert celeryconfig.beat_schedule["reap"]["schedule"].seconds <= min(2.0, settings.LEASE_SECONDS / 4)


@pytest.mark.once
@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_jumps_neither_stops_nor_hurries_what_is_periodic(
    hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedules = [entry["schedule"] for entry in celeryconfig.beat_schedule.values()]
    began, real, steady = schedules[0].now(), time.time(), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: real + 3600 * hours)
    assert not any(each.is_due(began).is_due for each in schedules)

    monkeypatch.setattr(time, "monotonic", lambda: steady + max(each.seconds for each in schedules) + 1)
    assert all(each.is_due(began).is_due for each in schedules)


@pytest.mark.once
@pytest.mark.parametrize("retried", [False, True])
def test_what_cannot_be_sent_is_one_line(caplog: pytest.LogCaptureFixture, *, retried: bool) -> None:
    away = f"redis://127.0.0.1:{ports.any_free('127.0.0.1')}/0"
    policy = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    sender = Scheduler(current_app, lazy=True)
    entry = beat.ScheduleEntry("reap", "inference.reap", schedule=schedule(1), app=current_app)
    entry.options = {"retry": retried, "retry_policy": policy}
    with kombu.Connection(away, transport_options={"socket_connect_timeout": 1}) as connection:
        sender.apply_entry(entry, producer=current_app.amqp.Producer(connection, auto_declare=False))

    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [(record.__dict__.get("action"), bool(record.exc_info)) for record in told] == [
        ("task_not_sent", False)
    ]


def test_what_is_periodic_waits_once_however_often_it_is_sent_and_never_runs_out_of_time(
    sluice: Broker, valkey: str
) -> None:
    with kombu.Connection(valkey, transport_options={"global_keyprefix": sluice.prefix}) as connection:
        for _ in range(3):
            for entry in celeryconfig.beat_schedule.values():
                current_app.send_task(entry["task"], connection=connection, **entry["options"])

    assert sluice.stats([CONTROL_QUEUE])[0].jobs == len(celeryconfig.beat_schedule)
    assert all("expires" not in entry["options"] for entry in celeryconfig.beat_schedule.values())


def test_the_tasks_do_what_they_are_called(sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    fleet.report(factories.make_report(name="gone"), now=long_ago)
    late = factories.make_job(created_at=long_ago)
    young = factories.make_job(created_at=timezone.now() - timedelta(seconds=30))

    for task in (tasks.expire, tasks.reconcile, tasks.reap, tasks.prune_workers):
        task()

    assert Job.objects.get(id=late.id).status == "expired"
    assert sluice.held([late.id, young.id]) == {young.id}
    assert list(Worker.objects.values_list("name", flat=True)) == ["worker-1"]


@pytest.mark.parametrize("error", [redis.ConnectionError("gone"), OperationalError("gone")])
def test_an_outage_puts_a_task_off_with_one_line_and_a_bug_does_not(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(maintenance, "reap", fail)
    tasks.reap()

    [record] = caplog.records
    assert (record.__dict__["action"], record.exc_info) == ("task_put_off", None)
    error = redis.ResponseError("script: attempt to index a nil value")
    with pytest.raises(redis.ResponseError):
        tasks.reap()


def test_an_abort_is_broadcast_by_job_and_claim(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(
        type(current_app.control), "broadcast", lambda _, command, **kwargs: sent.append((command, kwargs))
    )
    token = factories.make_token(factories.make_new_job().id)
    control.abort(token.job_id, token.claim_id)
    control.abort(token.job_id, None)

    assert [kwargs["arguments"] for _, kwargs in sent] == [{"task_id": token.tag}, {"task_id": str(token.job_id)}]
    assert {command for command, _ in sent} == {"terminate"}


def test_an_abort_that_cannot_be_sent_is_only_logged(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(type(current_app.control), "broadcast", away)
    control.abort(factories.make_new_job().id, None)

    assert caplog.records[-1].__dict__["action"] == "abort_not_sent"
