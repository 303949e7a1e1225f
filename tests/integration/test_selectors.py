"""The numbers that pages, API, metrics and Flower share."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from inference import errors, halts, selectors
from inference.broker import Broker
from inference.models import QueueLimit
from inference.rows import QueueRow
from tests import factories

QUEUE = f"{factories.MODEL}.standard.short"


def row_of(queue: str) -> QueueRow:
    [row] = [row for row in selectors.queue_rows() if row.queue == queue]
    return row


def test_every_queue_is_listed_though_nothing_waits(sluice: Broker) -> None:
    rows = selectors.queue_rows()

    assert len(rows) == 9
    assert {(row.jobs, row.tokens, row.backlog_seconds, row.leases, row.cap) for row in rows} == {
        (0, 0, 0.0, 0, 10_000)
    }
    assert {row.tier for row in rows} == {"realtime", "standard", "bulk"}


def test_backlog_is_what_waits_and_its_age_is_the_oldests(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=5)
    old = timezone.now() - timedelta(seconds=60)
    jobs = [factories.make_job(created_at=old), factories.make_job(), factories.make_job()]
    factories.publish(*jobs)
    claimed = factories.claim(sluice, QUEUE)
    row = row_of(QUEUE)

    assert claimed.token.job_id == jobs[0].id
    assert (row.jobs, row.tokens, row.leases, row.cap) == (2, 60, 1, 5)
    assert row.backlog_seconds < 30
    assert (row.model, row.tier, row.length) == (factories.MODEL, "standard", "short")


def test_the_oldest_waiting_job_gives_the_age(sluice: Broker) -> None:
    job = factories.make_job(created_at=timezone.now() - timedelta(seconds=60))
    factories.publish(job)
    row = row_of(QUEUE)

    assert 59 < row.backlog_seconds < 90


def test_what_is_paused_ages_without_being_a_backlog_that_counts(sluice: Broker) -> None:
    job = factories.make_job(created_at=timezone.now() - timedelta(seconds=60))
    factories.publish(job)
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    row = row_of(QUEUE)

    assert (row.jobs, row.backlog_seconds, row.is_paused) == (1, 0.0, True)
    assert (row.waiting_reason, row.expected_wait_seconds) == ("paused", None)


def test_the_queue_of_celerys_own_tasks_has_no_model_and_no_cap(sluice: Broker) -> None:
    sluice.publish_task("control", uuid.uuid4(), b"{}")
    row = selectors.control_row()
    assert (row.queue, row.model, row.jobs, row.cap) == ("control", "", 1, 0)


def test_a_tenant_sees_its_own_jobs_only_newest_first(db: None) -> None:
    factories.make_tenant("acme")
    mine = [factories.make_job(tenant="acme") for _ in range(3)]
    other = factories.make_job()

    assert [job.id for job in selectors.jobs_for("acme")] == [job.id for job in reversed(mine)]
    assert selectors.job_for("default", other.id).id == other.id
    assert selectors.job_for(None, other.id).id == other.id
    with pytest.raises(errors.NotFound):
        selectors.job_for("acme", other.id)


def test_an_unknown_job_is_not_found(db: None) -> None:
    with pytest.raises(errors.NotFound):
        selectors.check_exists(None, uuid.uuid4())
