"""Jobs past their start deadline expire, but not for a cold start, a pause or a silent fleet."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from inference import fleet, halts, lifecycle, maintenance, publication
from inference.broker import Broker
from inference.models import Job, JobEvent, QueueLimit
from inference.states import JobStatus
from tests import factories


def test_a_late_job_expires_once_a_worker_has_been_ready_long_enough(sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    late = factories.make_job(created_at=long_ago)
    young = factories.make_job()
    factories.publish(late, young)

    assert maintenance.expire(timezone.now()) == 1
    late.refresh_from_db()
    young.refresh_from_db()
    assert (late.status, late.error_code, young.status) == ("expired", "expired", "queued")
    assert sluice.held([late.id, young.id]) == {young.id}
    assert JobEvent.objects.filter(job=late, kind="expired").count() == 1


@pytest.mark.parametrize("ready_seconds_ago", [None, 299])
def test_nothing_expires_while_a_cold_start_is_to_blame(sluice: Broker, ready_seconds_ago: int | None) -> None:
    now = timezone.now()
    if ready_seconds_ago is not None:
        fleet.report(factories.make_report(ready_at=now - timedelta(seconds=ready_seconds_ago)))
    factories.make_job(created_at=now - timedelta(hours=1))

    assert maintenance.expire(now) == 0


def test_a_job_that_just_came_to_its_queue_is_not_late_whatever_its_row_says(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "CHUNK", 1)
    (young, late), now = make_late_jobs(), timezone.now()
    for job, arrival_ms in ((young, None), (late, round(late.created_at.timestamp() * 1000))):
        sluice.publish([replace(publication.entry_of(job, tenant_weight=1.0), arrival_ms=arrival_ms)])

    assert maintenance.expire(now) == 1
    assert sluice.held([young.id, late.id]) == {young.id}


BULK = f"{factories.MODEL}.bulk.long"


def make_late_jobs() -> tuple[Job, Job]:
    """Jobs of two queues whose deadline has passed; a worker has been ready all the time."""
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    return factories.make_job(created_at=long_ago), factories.make_job(
        created_at=long_ago, tier="bulk", length="long"
    )


def test_a_pause_expires_nothing_and_stops_no_other_clock(sluice: Broker) -> None:
    other, paused = make_late_jobs()
    halts.halt_queues(halts.Action.PAUSE, [BULK], by="ann")

    assert maintenance.expire(timezone.now()) == 1
    other.refresh_from_db()
    paused.refresh_from_db()
    assert (other.status, paused.status) == ("expired", "queued")


def test_after_a_pause_a_job_has_its_whole_time_again(sluice: Broker) -> None:
    _, paused = make_late_jobs()
    for action in (halts.Action.PAUSE, halts.Action.RESUME):
        halts.halt_queues(action, [BULK], by="ann")
    now = timezone.now()
    QueueLimit.objects.update(resumed_at=now - timedelta(seconds=298))

    assert maintenance.expire(now) == 1
    token = factories.make_token(paused.pk)
    [started] = lifecycle.apply([lifecycle.Start(token, "worker-1")], now=now)
    assert started.status is JobStatus.RUNNING


def test_a_job_that_waited_too_long_after_a_pause_expires(sluice: Broker) -> None:
    make_late_jobs()
    for action in (halts.Action.PAUSE, halts.Action.RESUME):
        halts.halt_queues(action, [BULK], by="ann")
    now = timezone.now()
    QueueLimit.objects.update(resumed_at=now - timedelta(seconds=301))

    assert maintenance.expire(now) == 2


def test_a_worker_of_another_model_or_one_not_heard_of_lately_expires_nothing(sluice: Broker) -> None:
    now = timezone.now()
    silent = factories.make_report(ready_at=now - timedelta(hours=1))
    fleet.report(silent, now=now - timedelta(seconds=60))
    factories.make_job(created_at=now - timedelta(hours=1))

    assert maintenance.expire(now) == 0


def test_a_running_job_never_expires(sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    factories.make_running_job(created_at=long_ago)
    fleet.report(factories.make_report(ready_at=long_ago))

    assert maintenance.expire(timezone.now()) == 0


def test_watchers_learn_that_their_job_expired(sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    job = factories.make_job(created_at=long_ago, streamed=True)
    factories.publish(job)
    sluice.watch(job.id, "web-1")
    maintenance.expire(timezone.now())

    assert [event.kind for event in sluice.stream(job.id)] == ["expired"]
