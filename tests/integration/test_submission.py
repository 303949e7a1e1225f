"""What is accepted is written and queued; what is refused leaves nothing."""

import json
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection

from inference import broker as broker_module
from inference import control, errors, halts, lifecycle, snapshot, submission
from inference.broker import Broker, ClaimRequest, Credit
from inference.models import Job, JobEvent, QueueLimit, ServedModel, Tier
from inference.states import Endpoint, JobStatus
from tests import factories, tokenizers_for_tests

QUEUE = f"{factories.MODEL}.standard.short"
LONG_QUEUE = f"{factories.MODEL}.standard.long"


@pytest.fixture(autouse=True)
def model_files(models_dir: Path) -> None:
    tokenizers_for_tests.write(models_dir / factories.MODEL)


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[uuid.UUID, uuid.UUID | None]]:
    calls: list[tuple[uuid.UUID, uuid.UUID | None]] = []
    monkeypatch.setattr(control, "abort", lambda job_id, claim_id: calls.append((job_id, claim_id)))
    return calls


def submit(**overrides: Any) -> Job:
    values: dict[str, Any] = {"caller": factories.make_caller(), "endpoint": Endpoint.CHAT}
    values["body"] = factories.make_chat()
    return submission.submit(**values | overrides)


def waiting(broker: Broker, queue: str = QUEUE) -> int:
    return broker.stats([queue])[0].jobs


def assert_nothing_left(broker: Broker) -> None:
    assert Job.objects.count() == 0
    assert all(stats.jobs == 0 for stats in broker.stats(snapshot.read().queues()))
    room = broker.admit(QUEUE, [uuid.uuid4()], cap=1)
    assert room.accepted, "a reservation is left"


def test_an_accepted_job_is_a_row_and_an_entry(sluice: Broker) -> None:
    job = submit(body=factories.make_chat("one two three", max_tokens=7))
    job.refresh_from_db()
    [stats] = sluice.stats([QUEUE])

    assert (job.status, job.queue, job.prompt_tokens, job.expected_tokens) == ("queued", QUEUE, 5, 7)
    assert job.estimate_seconds == pytest.approx(5 / 500 + 7 / 10)
    assert (stats.jobs, stats.tokens) == (1, 12)
    assert sluice.held([job.id]) == {job.id}


def test_the_engines_body_is_the_clients_less_what_is_ours(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(service_tier="flex", priority=1, top_k=5, stream=True, extra={"a": "ü"}))

    body = json.loads(job.request)
    assert body == factories.make_chat(top_k=5, stream=True, extra={"a": "ü"})
    assert (job.tier_id, job.streamed) == ("bulk", True)


def test_stream_set_by_the_api_wins_over_the_body(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(stream=True, stream_options={"include_usage": True}), stream=False)

    assert not job.streamed
    assert json.loads(job.request) == factories.make_chat(stream=False)


def test_a_completion_is_counted_as_text_or_by_its_ids(sluice: Broker) -> None:
    text = submit(endpoint=Endpoint.COMPLETIONS, body={"model": factories.MODEL, "prompt": "one two"})
    ids = submit(endpoint=Endpoint.COMPLETIONS, body={"model": factories.MODEL, "prompt": [1, 2, 3, 4]})

    assert (text.prompt_tokens, text.expected_tokens) == (2, 16)
    assert (ids.prompt_tokens, json.loads(ids.request)["prompt"]) == (4, [1, 2, 3, 4])


def test_a_long_prompt_goes_to_its_own_queue(sluice: Broker) -> None:
    assert submit(body=factories.make_chat("word " * 3000)).queue == LONG_QUEUE


def test_a_synchronous_call_has_the_shorter_deadline(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(service_tier="flex"), synchronous=True)

    assert (job.start_deadline_at - job.created_at).total_seconds() == 600


def test_a_job_may_have_an_id_known_before(sluice: Broker) -> None:
    job_id = uuid.uuid4()

    assert submit(job_id=job_id).id == job_id


@pytest.mark.parametrize(
    ("overrides", "error", "param"),
    [
        ({"body": []}, errors.InvalidRequest, None),
        ({"body": factories.make_chat(max_tokens=-1)}, errors.InvalidRequest, "max_tokens"),
        ({"body": factories.make_chat("a\x00")}, errors.InvalidRequest, "messages[0].content"),
        ({"body": factories.make_chat("\ud800")}, errors.InvalidRequest, "messages[0].content"),
        ({"body": {**factories.make_chat(), "model": "gpt-9"}}, errors.NotFound, "model"),
        ({"body": factories.make_chat(service_tier="gold")}, errors.InvalidRequest, "service_tier"),
        ({"tier": "gold"}, errors.InvalidRequest, "tier"),
        ({"body": factories.make_chat("word " * 9000)}, errors.InvalidRequest, "messages"),
        ({"body": factories.make_chat(max_tokens=8190)}, errors.InvalidRequest, "max_tokens"),
        (
            {"body": factories.make_chat(max_completion_tokens=9000)},
            errors.InvalidRequest,
            "max_completion_tokens",
        ),
        (
            {"caller": factories.make_caller(tiers=frozenset({"bulk"}))},
            errors.Forbidden,
            "service_tier",
        ),
    ],
)
def test_a_refusal_names_the_field_and_leaves_nothing(
    sluice: Broker, overrides: dict[str, Any], error: type[errors.SluiceError], param: str | None
) -> None:
    with pytest.raises(error) as caught:
        submit(**overrides)

    assert caught.value.param == param
    assert_nothing_left(sluice)


def test_too_long_a_prompt_is_told_with_limit_and_value(sluice: Broker) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        submit(body=factories.make_chat("word " * 9000))

    assert caught.value.code == "context_length_exceeded"
    assert "9002 tokens" in caught.value.message
    assert "8192" in caught.value.message


def test_a_disabled_model_is_not_served(sluice: Broker) -> None:
    ServedModel.objects.update(enabled=False)
    with pytest.raises(errors.NotFound):
        submit()


def test_a_model_without_files_is_unavailable_not_a_crash(sluice: Broker, models_dir: Path) -> None:
    (models_dir / factories.MODEL / "tokenizer.json").unlink()
    with pytest.raises(errors.Unavailable) as caught:
        submit()

    assert "tokenizer.json" in caught.value.message
    assert_nothing_left(sluice)


def test_a_full_queue_refuses_with_limit_current_value_and_time(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=2)
    submit()
    submit()
    with pytest.raises(errors.Rejected) as caught:
        submit()

    assert "at most 2 waiting jobs; 2 wait, 1 more" in caught.value.message
    assert caught.value.retry_after_seconds == 1
    assert (Job.objects.count(), waiting(sluice)) == (2, 2)


def test_a_cap_that_an_admin_raises_holds_at_once(sluice: Broker) -> None:
    cap = QueueLimit.objects.create(queue=QUEUE, max_jobs=0)
    with pytest.raises(errors.Rejected):
        submit()
    cap.max_jobs = 1
    cap.save()
    snapshot.forget()

    assert submit().status == "queued"


def test_a_draining_queue_takes_no_more_and_says_until_when(sluice: Broker) -> None:
    waits = submit()
    halts.halt_queues(halts.Action.DRAIN, [QUEUE], by="ann")
    with pytest.raises(errors.Unavailable) as refused:
        submit()
    assert (refused.value.code, refused.value.retry_after_seconds) == ("queue_draining", 30.0)
    assert f"queue {QUEUE} is draining" in refused.value.message
    assert sluice.held([waits.id]) == {waits.id}
    assert Job.objects.count() == 1


def test_a_paused_queue_takes_jobs(sluice: Broker) -> None:
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="ann")
    assert sluice.held([submit().id])


def test_a_draining_queue_takes_no_job_back_by_hand(sluice: Broker) -> None:
    job = submit()
    submission.cancel(caller=None, job_id=job.id)
    halts.halt_queues(halts.Action.DRAIN, [QUEUE], by="ann")
    with pytest.raises(errors.Unavailable, match="draining"):
        submission.retry(caller=None, job_id=job.id)


def test_many_are_accepted_together(sluice: Broker) -> None:
    items = [factories.make_submission(body=factories.make_chat("word " * n)) for n in (1, 3000, 2)]
    jobs = submission.submit_many(caller=factories.make_caller(), items=items)

    assert [job.prompt_tokens for job in jobs] == [3, 3002, 4]
    assert (waiting(sluice), waiting(sluice, LONG_QUEUE)) == (2, 1)


def test_of_many_a_bad_one_is_named_and_none_is_accepted(sluice: Broker) -> None:
    items = [factories.make_submission() for _ in range(3)]
    items[2] = factories.make_submission(body=factories.make_chat(max_tokens=0))
    with pytest.raises(errors.InvalidRequest) as caught:
        submission.submit_many(caller=factories.make_caller(), items=items)

    assert caught.value.param == "jobs[2].max_tokens"
    assert caught.value.message.startswith("jobs[2]: max_tokens")
    assert_nothing_left(sluice)


def test_of_many_none_is_accepted_if_one_of_their_queues_is_full(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=LONG_QUEUE, max_jobs=0)
    items = [factories.make_submission(body=factories.make_chat("word " * n)) for n in (1, 3000)]
    with pytest.raises(errors.Rejected):
        submission.submit_many(caller=factories.make_caller(), items=items)

    assert_nothing_left(sluice)


@pytest.mark.parametrize("count", [0, 1001])
def test_a_bulk_is_bounded(sluice: Broker, count: int) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        submission.submit_many(caller=factories.make_caller(), items=[factories.make_submission()] * count)

    assert f"from 1 to 1000, not {count}" in caught.value.message


def test_callers_at_once_never_overshoot_the_cap(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=10)
    snapshot.limits()
    together, outcomes = threading.Barrier(8), []

    def submit_five() -> None:
        together.wait()
        for _ in range(5):
            try:
                outcomes.append(submit().status)
            except errors.Rejected:
                outcomes.append("rejected")
        connection.close()

    threads = [threading.Thread(target=submit_five) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (outcomes.count("queued"), outcomes.count("rejected")) == (10, 30)
    assert (Job.objects.count(), waiting(sluice)) == (10, 10)


def test_without_redis_nothing_is_accepted(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Broker(broker_module.connect("redis://127.0.0.1:1/0"), prefix="{away}:")
    monkeypatch.setattr(broker_module, "get_broker", lambda: away)
    with pytest.raises(errors.Unavailable) as caught:
        submit()

    assert caught.value.retry_after_seconds
    assert Job.objects.count() == 0


def test_redis_going_away_after_the_commit_leaves_the_job_accepted(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(entries: object) -> None:
        raise broker_module.BrokerAway("gone")

    monkeypatch.setattr(sluice, "publish", away)
    job = submit()

    assert Job.objects.get(id=job.id).status == "queued"
    assert waiting(sluice) == 0


def test_a_row_that_cannot_be_written_leaves_no_reservation(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(jobs: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(lifecycle, "create", locked)
    with pytest.raises(errors.Unavailable):
        submit()

    assert_nothing_left(sluice)


def test_a_key_deleted_while_it_was_cached_is_no_crash(sluice: Broker) -> None:
    with pytest.raises(errors.Unavailable):
        submit(caller=factories.make_caller(api_key_id="sk-gone"))

    assert_nothing_left(sluice)


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

    assert sluice.admit(QUEUE, [uuid.uuid4()], cap=1).accepted, "a reservation is left"


def test_a_cancelled_waiting_job_leaves_its_queue(sluice: Broker, aborted: list[object]) -> None:
    job = submit()
    cancelled = submission.cancel(caller=factories.make_caller(), job_id=job.id)

    assert cancelled.status == "cancelled"
    assert (waiting(sluice), aborted) == (0, [])


def test_a_cancelled_job_that_a_worker_has_parked_is_aborted_there(sluice: Broker, aborted: list[object]) -> None:
    job = submit()
    sluice.claim(ClaimRequest((QUEUE,), credit=Credit(1, 10_000), limit=1, worker="worker-1", lease_seconds=20))
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


def test_without_service_tier_the_default_tier_takes_the_job(sluice: Broker) -> None:
    assert submit().tier_id == "standard"
    Tier.objects.filter(name="standard").update(service_tiers=[])
    Tier.objects.filter(name="bulk").update(service_tiers=["default", "flex"])
    snapshot.forget()

    assert submit().tier_id == "bulk"
