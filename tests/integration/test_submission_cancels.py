"""A job is cancelled and retried by whoever it belongs to."""

import uuid

import pytest
from django.db import OperationalError

from inference import broker as broker_module
from inference import control, errors, lifecycle, submission
from inference.broker import Broker
from inference.models import Job, JobEvent
from inference.states import JobStatus
from tests import factories
from tests.integration import submitting
from tests.integration.broker_jobs import admit
from tests.integration.submitting import QUEUE, submit, waiting

model_files = submitting.model_files


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[uuid.UUID, uuid.UUID | None]]:
    calls: list[tuple[uuid.UUID, uuid.UUID | None]] = []
    monkeypatch.setattr(control, "abort", lambda job_id, claim_id: calls.append((job_id, claim_id)))
    return calls


def test_a_retry_that_cannot_be_written_leaves_no_reservation(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = submit()
    submission.cancel(caller=None, job_id=job.id)

    def locked(changes: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(lifecycle, "apply", locked)
    with pytest.raises(OperationalError):
        submission.retry(caller=None, job_id=job.id)

    assert admit(sluice, QUEUE, [uuid.uuid4()], cap=1).accepted, "a reservation is left"


def test_a_cancelled_waiting_job_leaves_its_queue(sluice: Broker, aborted: list[object]) -> None:
    job = submit()
    cancelled = submission.cancel(caller=factories.make_caller(), job_id=job.id)

    assert cancelled.status == "cancelled"
    assert (waiting(sluice), aborted) == (0, [])


def test_a_cancelled_job_that_a_worker_has_parked_is_aborted_there(sluice: Broker, aborted: list[object]) -> None:
    job = submit()
    factories.claim(sluice, QUEUE)
    submission.cancel(caller=factories.make_caller(), job_id=job.id)

    assert aborted == [(job.id, None)]


def test_a_cancelled_running_job_is_aborted_under_its_claim(sluice: Broker, aborted: list[object]) -> None:
    job, token = factories.make_running_job()
    submission.cancel(caller=factories.make_caller(), job_id=job.id)

    assert aborted == [(job.id, token.claim_id)]
    assert JobEvent.objects.get(job=job, kind="cancelled").detail == "by the client"


def test_a_cancel_without_redis_still_cancels_the_row(
    sluice: Broker, aborted: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object, **kwargs: object) -> None:
        raise broker_module.BrokerAway("gone")

    job, _ = factories.make_running_job()
    monkeypatch.setattr(sluice, "cancel", away)

    assert submission.cancel(caller=None, job_id=job.id).status == "cancelled"
    assert len(aborted) == 1


def test_a_finished_job_stays_as_it_is_when_cancelled(sluice: Broker, aborted: list[object]) -> None:
    job, token = factories.make_running_job()
    lifecycle.apply([factories.make_success(token)])

    assert submission.cancel(caller=None, job_id=job.id).status == "succeeded"
    assert aborted == []


def test_another_tenants_job_does_not_exist(sluice: Broker) -> None:
    factories.make_tenant("acme")
    job = factories.make_job(tenant="acme")
    with pytest.raises(errors.NotFound):
        submission.cancel(caller=factories.make_caller(), job_id=job.id)

    assert Job.objects.get(id=job.id).status == "queued"


def test_a_cancelled_job_can_be_retried_by_hand(sluice: Broker) -> None:
    job = submit()
    submission.cancel(caller=None, job_id=job.id)
    again = submission.retry(caller=factories.make_caller(), job_id=job.id)

    assert (again.status, waiting(sluice)) == ("queued", 1)
    kinds = JobEvent.objects.filter(job=job).values_list("kind", flat=True)
    assert list(kinds) == ["queued", "cancelled", "queued"]


def test_a_job_that_lives_cannot_be_retried(sluice: Broker) -> None:
    job = submit()
    with pytest.raises(errors.InvalidRequest) as caught:
        submission.retry(caller=None, job_id=job.id)

    assert caught.value.status == 409
    assert (Job.objects.get(id=job.id).status, waiting(sluice)) == (JobStatus.QUEUED, 1)
