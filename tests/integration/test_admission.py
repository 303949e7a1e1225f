"""Rates, caps of tenants and what a fleet can do, as submissions meet them; what is refused leaves nothing."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError, connection

from inference import clock, errors, fleet, lifecycle, publication, snapshot, submission
from inference.admission import engines
from inference.admission.terms import Reason
from inference.broker import Broker
from inference.limits import KeyLimits, TenantLimits
from inference.models import Job, LengthClass, QueueLimit, ServedModel, Tier
from inference.states import WorkerState
from tests import factories
from tests.integration import broker_jobs, submitting
from tests.integration.submitting import LONG_QUEUE, QUEUE, submit, waiting

model_files = submitting.model_files


def caller(**limits: Any) -> submission.Caller:
    """One with a key of its own; limits that both know are the key's."""
    key = {name: value for name, value in limits.items() if name in KeyLimits.__slots__}
    own = {name: value for name, value in limits.items() if name not in key}
    row, _ = factories.make_key()
    return factories.make_caller(api_key_id=row.pk, key_limits=KeyLimits(**key), tenant_limits=TenantLimits(**own))


def refused(**values: Any) -> errors.Rejected:
    with pytest.raises(errors.Rejected) as caught:
        submit(**values)
    return caught.value


@pytest.mark.parametrize("limit", ["requests_per_second", "requests_per_minute"])
def test_one_request_more_than_a_key_may_make_is_refused_and_told_when(sluice: Broker, limit: str) -> None:
    who = caller(**{limit: 2})
    submit(caller=who)
    submit(caller=who)
    error = refused(caller=who)
    assert (error.status, error.code, error.details["reason"]) == (429, "rate_limit_exceeded", limit)
    assert (error.details["limit"], error.details["current"], error.details["requested"]) == (2, 2, 1)
    assert 1 <= (error.retry_after_seconds or 0) <= 61
    assert (Job.objects.count(), waiting(sluice)) == (2, 2)


def test_rates_of_a_tenant_count_over_all_its_keys(sluice: Broker) -> None:
    limits = TenantLimits(requests_per_minute=1)
    submit(caller=replace(caller(), tenant_limits=limits))
    error = refused(caller=replace(caller(), tenant_limits=limits))
    assert "tenant default may make 1 requests in a minute; 1 were made" in error.message


def test_tokens_are_given_back_as_far_as_they_were_not_used(sluice: Broker) -> None:
    who, body = caller(tokens_per_minute=100), factories.make_chat("word", max_tokens=60)
    submit(caller=who, body=body)
    refused(caller=who, body=body)
    claimed = factories.claim(sluice, QUEUE)
    sluice.ack(claimed.token, status="succeeded", tokens=claimed.prompt_tokens + 1)
    submit(caller=who, body=body)


def test_a_job_that_is_cancelled_before_it_ran_gives_its_tokens_back(sluice: Broker) -> None:
    who, body = caller(tokens_per_minute=100), factories.make_chat("word", max_tokens=60)
    job = submit(caller=who, body=body)
    submission.cancel(caller=None, job_id=job.id)
    submit(caller=who, body=body)


def test_a_request_larger_than_the_limit_itself_is_not_to_be_repeated(sluice: Broker) -> None:
    error = refused(caller=caller(tokens_per_minute=30))
    assert (error.retry_after_seconds, error.details["requested"]) == (None, 3 + 256)


def test_what_is_refused_consumes_nothing_of_any_limit(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=0)
    who = caller(requests_per_minute=1, tokens_per_minute=300, max_queued_jobs=1)
    refused(caller=who)
    QueueLimit.objects.all().delete()
    snapshot.forget()
    assert submit(caller=who).status == "queued"


def test_a_bulk_of_which_a_later_part_is_refused_gives_the_earlier_back(sluice: Broker) -> None:
    who = caller(requests_per_minute=120)
    items = [factories.make_submission() for _ in range(150)]
    with pytest.raises(errors.Rejected):
        submission.submit_many(caller=who, items=items)
    assert len(submission.submit_many(caller=who, items=items[:120])) == 120


def test_a_bulk_larger_than_its_limit_is_not_to_be_repeated_whichever_part_is_refused(sluice: Broker) -> None:
    who, items = caller(requests_per_minute=120), [factories.make_submission() for _ in range(150)]
    with pytest.raises(errors.Rejected) as caught:
        submission.submit_many(caller=who, items=items)
    error = caught.value
    assert (error.retry_after_seconds, error.headers["x-ratelimit-remaining-requests"]) == (None, "120")
    assert (error.details["limit"], error.details["current"], error.details["requested"]) == (120, 0, 150)


def test_rows_that_cannot_be_written_give_everything_back(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise OperationalError("away")

    who = caller(requests_per_minute=1, max_unfinished_jobs=1)
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "create", fails)
        with pytest.raises(errors.Unavailable):
            submit(caller=who)
    assert submit(caller=who).status == "queued"


def test_a_tenants_waiting_and_unfinished_jobs_are_capped_each(sluice: Broker) -> None:
    who = caller(max_queued_jobs=1, max_unfinished_jobs=2)
    submit(caller=who)
    assert refused(caller=who).details["reason"] == Reason.TENANT_QUEUED_JOBS
    claimed = factories.claim(sluice, QUEUE)
    submit(caller=who)
    first = factories.claim(sluice, QUEUE)
    assert refused(caller=who).details["reason"] == Reason.TENANT_UNFINISHED_JOBS
    sluice.ack(claimed.token, status="succeeded")
    sluice.release(first.token)
    assert refused(caller=who).details["reason"] == Reason.TENANT_QUEUED_JOBS


def test_tokens_and_bytes_of_a_queue_are_capped(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_tokens=300)
    QueueLimit.objects.create(queue=LONG_QUEUE, max_bytes=10)
    submit()
    assert dict(refused().details) | {"requested": 0} == {
        "reason": Reason.QUEUE_TOKENS, "limit": 300, "current": 259, "requested": 0,
    }  # fmt: skip
    error = refused(body=factories.make_chat("word " * 3000))
    assert (error.code, error.details["reason"]) == ("queue_full", Reason.QUEUE_BYTES)


def test_bytes_of_a_model_are_refused_to_the_least_urgent_tier_first(sluice: Broker) -> None:
    size = submit().request_bytes
    ServedModel.objects.update(max_queued_bytes=2 * size + 1, emergency_watermark=0.9)
    snapshot.forget()
    assert refused(tier="bulk", synchronous=True).details["reason"] == Reason.MODEL_BYTES
    assert submit(tier="realtime").status == "queued"
    assert refused(tier="realtime").code == "model_full"


def ready(**overrides: Any) -> None:
    fleet.report(factories.make_report(**overrides))
    engines.forget()


def test_a_wait_longer_than_the_tier_bears_is_refused_once_no_slot_is_free(sluice: Broker) -> None:
    Tier.objects.filter(name="standard").update(max_wait_seconds=20)
    ready(slots=2)
    for _ in range(3):  # a job takes 25.6 s: the third waits for half of that
        submit()
    error = refused()
    assert (error.code, error.details["limit"]) == ("wait_too_long", 20)


def test_capacity_grows_with_the_workers(sluice: Broker) -> None:
    Tier.objects.filter(name="standard").update(max_wait_seconds=1)
    ready(slots=1)
    submit()
    assert refused().code == "wait_too_long"
    ready(name="worker-2", slots=2)
    submit()
    submit()
    assert refused().code == "wait_too_long"


@pytest.mark.parametrize("capped", ["tier", "queue", "length"])
def test_a_cap_in_flight_makes_the_wait_longer_though_slots_are_free(sluice: Broker, capped: str) -> None:
    Tier.objects.filter(name="standard").update(max_wait_seconds=20)
    ready(slots=8)
    if capped == "queue":
        QueueLimit.objects.create(queue=QUEUE, max_in_flight=1)
    else:
        rows = {"tier": Tier.objects.filter(name="standard"), "length": LengthClass.objects.filter(name="short")}
        rows[capped].update(max_in_flight=1)
    submit()
    error = refused()  # behind the one, in the one slot
    assert (error.code, error.details["current"]) == ("wait_too_long", 25.61)


def test_a_cold_start_queues(sluice: Broker) -> None:
    Tier.objects.filter(name="standard").update(max_wait_seconds=1)
    ready(slots=1, state=WorkerState.LOADING)
    for _ in range(4):
        submit()


def test_an_own_cap_of_a_queue_replaces_the_wait(sluice: Broker) -> None:
    Tier.objects.filter(name="standard").update(max_wait_seconds=0.001)
    QueueLimit.objects.create(queue=QUEUE, max_jobs=3)
    ready(slots=1)
    for _ in range(3):
        submit()
    assert refused().code == "queue_full"


def test_without_a_worker_a_model_that_does_not_scale_from_zero_takes_nothing(sluice: Broker) -> None:
    ServedModel.objects.update(scales_from_zero=False)
    with pytest.raises(errors.Unavailable) as caught:
        submit()
    assert (caught.value.code, caught.value.status) == ("no_worker", 503)
    ready()
    assert submit().status == "queued"


def test_the_last_known_workers_hold_while_the_database_is_away(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ready(slots=7)
    assert [each.slots for each in engines.replicas()] == [7]

    def away() -> None:
        raise OperationalError("away")

    monkeypatch.setattr(clock, "now", away)
    monkeypatch.setattr("inference.last_good.connection.close", lambda: None)
    assert [each.slots for each in engines.replicas(max_age_seconds=0)] == [7]
    assert [record.__dict__["action"] for record in caplog.records] == ["workers_kept"]


def test_many_at_once_overshoot_no_limit_together(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=30)
    snapshot.limits()
    who = caller(requests_per_minute=25, max_queued_jobs=20)

    def one(_: int) -> bool:
        try:
            submit(caller=who)
        except errors.Rejected:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(one, range(120))) == 20
    assert (Job.objects.count(), waiting(sluice)) == (20, 20)


def test_a_job_whose_entry_was_lost_is_counted_no_more(sluice: Broker) -> None:
    job = submit()
    sluice.client.delete(f"{sluice.prefix}e:".encode() + job.id.bytes)
    assert sluice.sweep("default") == ("0", 1)
    publication.publish([publication.entry_of(job, tenant_weight=1.0)])
    assert sluice.sweep("default") == ("0", 0)


def test_one_that_ran_when_its_entry_was_lost_is_not_taken_for_one_that_runs(sluice: Broker) -> None:
    job = submit()
    factories.claim(sluice, QUEUE)
    client: Any = sluice.client
    assert client.zcard(f"{sluice.prefix}running") == 1
    client.delete(f"{sluice.prefix}e:".encode() + job.id.bytes)
    assert sluice.sweep("default") == ("0", 1)
    assert client.zcard(f"{sluice.prefix}running") == 0


def ask(sluice: Broker, owner: str, *, slots: int = 1) -> Any:
    return broker_jobs.admit(sluice, QUEUE, [uuid.uuid4()], cap=1, slots=slots, owner=owner)


def told_to_come_now(sluice: Broker) -> None:
    """Fill the queue, refuse Ann, then Bob, and let Ann's time come with the only slot taken."""
    submit()
    told = ask(sluice, "key=ann").refusal.retry_ms
    assert 0 < told <= 120_000
    assert ask(sluice, "key=bob").refusal.retry_ms > told
    factories.claim(sluice, QUEUE)
    client: Any = sluice.client
    for name in (f"turns:{QUEUE}", f"turns:{QUEUE}:key=ann"):
        [(member, due), *_] = client.zrange(sluice.prefix + name, 0, 0, withscores=True)
        client.zadd(sluice.prefix + name, {member: due - told})


def test_who_was_told_to_come_back_finds_room_and_others_do_not(sluice: Broker) -> None:
    told_to_come_now(sluice)
    assert not ask(sluice, "key=cy").accepted
    assert ask(sluice, "key=ann").accepted


def test_room_that_is_kept_keeps_nobody_from_a_free_slot(sluice: Broker) -> None:
    told_to_come_now(sluice)
    assert ask(sluice, "key=cy", slots=2).accepted
