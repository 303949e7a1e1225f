"""Calls at a full queue whose tier holds them: taken under a cap of their own, started in time or refused."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inference import errors, lifecycle, maintenance, retiering, snapshot, submission
from inference.admission import holds
from inference.admission.terms import Reason, Refusal
from inference.broker import Broker
from inference.models import ApiKey, Job, JobEvent, QueueLimit, ServedModel, Tier
from inference.states import ReleaseReason
from tests import factories, waiting
from tests.integration import admin_pages, submitting
from tests.integration.admin_pages import url
from tests.integration.api_server import Api, Hand, in_background
from tests.integration.submitting import QUEUE, submit

pytest_plugins = ["tests.integration.api_fixtures"]

model_files, page = submitting.model_files, admin_pages.page

CHAT = "/v1/chat/completions"


def full(**fields: Any) -> Job:
    """A queue with all the jobs that it takes, and a tier that holds more."""
    Tier.objects.filter(name="standard").update(on_full="hold", **fields)
    QueueLimit.objects.create(queue=QUEUE, max_jobs=1)
    snapshot.forget()
    return submit()


def call(**values: Any) -> Job:
    return submit(synchronous=True, **values)


def refused(**values: Any) -> errors.Rejected:
    with pytest.raises(errors.Rejected) as caught:
        submit(**values)
    return caught.value


def age(job: Job, seconds: float, sluice: Broker) -> None:
    """Have a call wait for so long already, by its row and by the broker."""
    then = timedelta(seconds=seconds)
    Job.objects.filter(id=job.id).update(
        queued_at=job.queued_at - then,
        hold_ends_at=job.hold_ends_at and job.hold_ends_at - then,
    )
    arrival = round((job.created_at - then).timestamp() * 1000)
    sluice.client.hset(f"{sluice.prefix}e:".encode() + job.id.bytes, "a", arrival)


def test_a_full_queue_holds_calls_up_to_a_cap_of_their_own(sluice: Broker) -> None:
    first = full(max_held_jobs=2, hold_seconds=7)
    on_hold = [call() for _ in range(2)]

    assert first.hold_ends_at is None
    assert {job.hold_ends_at and (job.hold_ends_at - job.created_at).total_seconds() for job in on_hold} == {7}
    assert {(job.start_deadline_at - job.created_at).total_seconds() for job in on_hold} == {300}
    assert refused(synchronous=True).details["reason"] == Reason.QUEUE_JOBS
    assert JobEvent.objects.get(job=on_hold[0]).detail == "on hold"


def test_nobody_is_held_who_does_not_wait_or_whose_tier_refuses(sluice: Broker) -> None:
    full()
    assert refused().code == "queue_full"
    Tier.objects.update(on_full="reject")
    snapshot.forget()
    assert refused(synchronous=True).code == "queue_full"


def test_whoever_is_refused_is_told_to_come_when_those_on_hold_are_gone(sluice: Broker) -> None:
    full()
    alone = refused().retry_after_seconds or 0
    for _ in range(50):
        call()
    assert (refused().retry_after_seconds or 0) > 30 * alone > 0


def test_the_admin_sees_how_many_of_those_that_wait_are_on_hold(page: Client, sluice: Broker) -> None:
    full()
    call()
    assert "2 (1 on hold)" in page.get(url(Tier, "changelist")).content.decode()


def test_what_its_caps_could_never_hold_is_not_held_either(sluice: Broker) -> None:
    full()
    QueueLimit.objects.update(max_tokens=100)
    snapshot.forget()
    assert refused(synchronous=True).code == "queue_full"
    assert call(body=factories.make_chat(max_tokens=5)).hold_ends_at


def test_the_bytes_of_a_model_are_not_passed_by_holding(sluice: Broker) -> None:
    size = full().request_bytes
    ServedModel.objects.update(max_queued_bytes=2 * size + 1, emergency_watermark=1)
    snapshot.forget()
    call()
    assert refused(synchronous=True).code == "queue_full"


def test_whoever_leaves_or_starts_frees_a_place_on_hold(sluice: Broker) -> None:
    first = full(max_held_jobs=1)
    submission.cancel(caller=None, job_id=call().id)
    third = call()
    refused(synchronous=True)

    assert [factories.claim(sluice, QUEUE).token.job_id for _ in range(2)] == [first.id, third.id]
    assert (call().hold_ends_at, bool(call().hold_ends_at)) == (None, True)


def test_a_hold_ends_whether_or_not_a_worker_is_ready_and_gives_all_back(sluice: Broker) -> None:
    row, _ = factories.make_key()
    ApiKey.objects.update(tokens_per_minute=500)
    limited = factories.make_caller(api_key_id=row.pk, key_limits=snapshot.key_limits(ApiKey.objects.get()))
    full(max_held_jobs=1)
    late = call(caller=limited)
    age(late, 20, sluice)

    assert maintenance.expire(timezone.now()) == 1
    late.refresh_from_db()
    assert (late.status, late.error_code, late.hold_ends_at) == ("expired", "queue_full", None)
    assert "did not start in the 20 s of its hold" in late.error_message
    assert sluice.held([late.id]) == set()
    call(caller=limited)
    assert refused(caller=limited, synchronous=True).code == "rate_limit_exceeded"


def test_a_hold_is_not_over_before_its_time(sluice: Broker) -> None:
    full()
    job = call()
    age(job, 15, sluice)
    assert maintenance.expire(timezone.now()) == 0
    assert maintenance.expire(timezone.now() + timedelta(seconds=10)) == 0, "by the broker's clock it is young"


def test_a_claim_after_the_hold_starts_nothing(sluice: Broker) -> None:
    full()
    late = call()
    age(late, 21, sluice)
    [applied] = lifecycle.apply([lifecycle.Start(factories.make_token(late.id), "worker-1")])
    assert (applied.moved, applied.status) == (False, "expired")


def test_whoever_started_is_on_hold_no_longer(sluice: Broker) -> None:
    full()
    token = factories.make_token(call().id)
    lifecycle.apply([lifecycle.Start(token, "worker-1"), lifecycle.Release(token, ReleaseReason.ENGINE_CRASH)])
    job = Job.objects.get(id=token.job_id)
    assert (job.status, job.hold_ends_at) == ("queued", None)
    assert (job.start_deadline_at - job.queued_at).total_seconds() == 300


def test_whoever_is_moved_to_another_tier_is_on_hold_no_longer(sluice: Broker) -> None:
    full(max_held_jobs=1)
    assert retiering.change_tier(job_id=call().pk, tier="bulk").hold_ends_at is None
    assert call().hold_ends_at


@pytest.mark.parametrize("fields", [{}, {"stream": True}], ids=["plain", "streamed"])
def test_a_call_that_does_not_start_on_hold_is_refused_as_by_a_full_queue(
    api: Api, sluice: Broker, fields: dict[str, Any]
) -> None:
    full(hold_seconds=0.3)
    with in_background(api, **fields) as waits:
        waiting.until(lambda: maintenance.expire(timezone.now()) == 1)
    answer, error = waits.response, waits.response.json()["error"]

    assert (answer.status_code, error["code"], error["type"]) == (429, "queue_full", "rate_limit_error")
    assert (error["reason"], error["limit"], error["current"], error["requested"]) == ("queue_jobs", 1, 1, 1)
    assert error["message"].endswith("the request was on hold for 0.3 s and did not start")
    assert 1 <= int(answer.headers["Retry-After"]) <= 120
    assert answer.headers["x-sluice-job-id"] == str(Job.objects.get(status="expired").id)


def test_a_call_that_starts_on_hold_is_answered(api: Api, hand: Hand, sluice: Broker) -> None:
    first = full()
    with in_background(api) as waits:
        waiting.until(lambda: Job.objects.filter(hold_ends_at__isnull=False).count() == 1)
        assert hand.claim().token.job_id == first.id
        hand.succeed(hand.claim(), {"choices": []})
    assert (waits.response.status_code, waits.response.json()["choices"]) == (200, [])


def test_without_redis_the_refusal_still_says_when_to_come_back(without_redis: None) -> None:
    hold = holds.Hold(Refusal(Reason.WAIT, QUEUE, 1000, 2000, 1), 7.0, "key=a", "ann", service_seconds=1.0)
    assert holds.refused(hold).retry_after_seconds == 7
