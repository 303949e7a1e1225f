"""A synchronous call and its job: how one ends the other."""

import gc
import uuid
from datetime import timedelta
from typing import Any

import orjson
import pytest
from django.utils import timezone

from inference import fleet, lifecycle, results, submission
from inference.api import sse
from inference.api.handler import ApiRequest
from inference.broker import Broker, Claimed
from inference.models import Job
from inference.states import FailureReason, JobStatus
from tests import factories, waiting
from tests.integration.api_server import Api, Hand, forget_everything, in_background, read_until, without_mailbox

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"
STREAMED = {"stream": True}
ENDINGS = [
    (FailureReason.BAD_REQUEST, 400),
    (FailureReason.ENGINE_ERROR, 500),
    (FailureReason.RUN_TIMEOUT, 500),
]


def status_of(claimed: Claimed) -> str:
    return Job.objects.get(id=claimed.token.job_id).status


def the_job() -> Job:
    waiting.until(lambda: Job.objects.count() == 1)
    return Job.objects.get()


# A client that leaves takes its job with it.


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["plain", "streamed"])
def test_a_client_that_leaves_while_its_job_waits_cancels_it(
    api: Api, sluice: Broker, fields: dict[str, Any]
) -> None:
    connection = api.connect(CHAT, factories.make_chat(**fields))
    job = the_job()
    connection.close()
    waiting.until(lambda: Job.objects.get(id=job.id).status == JobStatus.CANCELLED)
    waiting.until(lambda: not sluice.held([job.id]))


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["plain", "streamed"])
def test_a_client_that_leaves_while_its_job_runs_cancels_it(
    api: Api, hand: Hand, sluice: Broker, fields: dict[str, Any]
) -> None:
    connection = api.connect(CHAT, factories.make_chat(**fields))
    claimed = hand.claim()
    connection.close()
    waiting.until(lambda: status_of(claimed) == JobStatus.CANCELLED)
    waiting.until(lambda: sluice.renew([claimed.token], lease_seconds=30).cancelled == {claimed.token})


def test_a_client_that_leaves_in_mid_stream_cancels_its_job(api: Api, hand: Hand) -> None:
    connection = api.connect(CHAT, factories.make_chat(stream=True))
    claimed = hand.claim()
    hand.say(claimed, b"data: {}\n\n")
    read_until(connection, b"data: {}")
    connection.close()
    waiting.until(lambda: status_of(claimed) == JobStatus.CANCELLED)
    waiting.until(lambda: not hand.say(claimed, b"data: {}\n\n"))  # the broker hears of it after the row


def test_a_client_that_stops_reading_and_leaves_cancels_its_job(api: Api, hand: Hand) -> None:
    connection = api.connect(CHAT, factories.make_chat(stream=True))
    claimed = hand.claim()
    for _ in range(64):
        hand.say(claimed, b"data: " + b"a" * 250_000 + b"\n\n")
    read_until(connection, b"data: ")
    connection.close()
    waiting.until(lambda: status_of(claimed) == JobStatus.CANCELLED)


def test_a_client_that_leaves_while_its_job_is_submitted_cancels_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, has_left = submission.take, list[bool]()

    def submit_late(**words: Any) -> submission.Accepted:
        connection.close()
        has_left.append(True)
        return submit(**words)

    monkeypatch.setattr(submission, "take", submit_late)
    connection = api.connect(CHAT, factories.make_chat())
    waiting.until(lambda: bool(has_left))
    job = the_job()
    waiting.until(lambda: Job.objects.get(id=job.id).status == JobStatus.CANCELLED)


def test_a_client_that_leaves_with_the_last_event_does_not_cancel(api: Api, hand: Hand) -> None:
    connection = api.connect(CHAT, factories.make_chat(stream=True))
    claimed = hand.claim()
    hand.say(claimed, b"data: {}\n\n", b"data: [DONE]\n\n")
    read_until(connection, b"[DONE]\n\n")
    connection.close()
    # A second client's cancel is done after the first one's would have been.
    other = api.connect(CHAT, factories.make_chat())
    waiting.until(lambda: Job.objects.count() == 2)
    other.close()
    waiting.until(lambda: Job.objects.filter(status=JobStatus.CANCELLED).exists())
    assert status_of(claimed) == JobStatus.RUNNING
    hand.succeed(claimed, {"choices": []})
    assert status_of(claimed) == JobStatus.SUCCEEDED


def test_a_client_that_prefers_not_to_wait_is_answered_with_the_job(api: Api, hand: Hand) -> None:
    response = api.post(CHAT, factories.make_chat(), headers={"Prefer": "wait=5, respond-async"})
    assert response.status_code == 202
    assert response.headers["Preference-Applied"] == "respond-async"
    shown = response.json()
    assert shown["id"] == response.headers["x-sluice-job-id"]
    assert shown["status"] == "queued"
    claimed = hand.claim()
    hand.succeed(claimed, {"choices": [1]})
    assert api.get(f"/api/v1/jobs/{shown['id']}/").json()["result"] == {"choices": [1]}


# How a job ends, its client is told.


@pytest.mark.parametrize(("reason", "status"), ENDINGS)
@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["plain", "streamed"])
def test_a_job_that_fails_before_it_says_anything_is_an_error_with_a_status(
    api: Api, hand: Hand, fields: dict[str, Any], reason: FailureReason, status: int
) -> None:
    with in_background(api, **fields) as call:
        claimed = hand.claim()
        hand.fail(claimed, reason, "the engine says why")
    response = call.response
    assert response.status_code == status
    assert response.headers["x-sluice-job-id"] == str(claimed.token.job_id)
    error = response.json()["error"]
    assert (error["code"], error["message"]) == (reason.value, "the engine says why")


@pytest.mark.parametrize(
    ("message", "param"),
    [("logit_bias: 9 is no token", "logit_bias"), ("top_p must be 1", "top_p"), ("No: it is too long", None)],
)
def test_an_engines_refusal_names_the_field_that_it_blames(
    api: Api, hand: Hand, message: str, param: str | None
) -> None:
    with in_background(api) as call:
        hand.fail(hand.claim(), FailureReason.BAD_REQUEST, message)
    error = call.response.json()["error"]
    assert (call.response.status_code, error["param"], error["message"]) == (400, param, message)


@pytest.mark.parametrize("fields", [{}, STREAMED], ids=["plain", "streamed"])
def test_a_job_that_somebody_else_cancels_is_a_conflict_not_to_be_retried(
    api: Api, fields: dict[str, Any]
) -> None:
    with in_background(api, **fields) as call:
        api.post(f"/api/v1/jobs/{the_job().id}/cancel/")
    assert (call.response.status_code, call.response.json()["error"]["code"]) == (409, "cancelled")
    assert call.response.headers["x-should-retry"] == "false"


def test_a_job_that_expires_is_a_gateway_timeout(api: Api, sluice: Broker) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago, started_at=long_ago))  # else no deadline passes
    with in_background(api) as call:
        job = the_job()
        Job.objects.filter(id=job.id).update(start_deadline_at=long_ago, queued_at=long_ago)
        assert lifecycle.apply([lifecycle.Expire(job.id)])[0].moved
        sluice.cancel(job.id, status="expired")
    assert (call.response.status_code, call.response.json()["error"]["code"]) == (504, "start_deadline_passed")


def test_output_of_an_attempt_that_broke_off_in_mid_stream_ends_with_an_error_event(api: Api, hand: Hand) -> None:
    with in_background(api, stream=True) as call:
        first = hand.claim()
        hand.say(first, b'data: {"n": 1}\n\n')
        call.wait_for(b'"n": 1')
        hand.release(first)
        second = hand.claim()
        hand.say(second, b'data: {"n": 2}\n\n')
    events = call.response.text.split("\n\n")
    assert events[0] == 'data: {"n": 1}'
    assert orjson.loads(events[1].removeprefix("data: "))["error"]["code"] == "interrupted"
    assert '"n": 2' not in call.response.text
    # The job goes on for its record.
    hand.succeed(second, {"choices": []})
    assert status_of(second) == JobStatus.SUCCEEDED


def test_a_job_released_before_it_said_anything_streams_from_its_next_attempt(api: Api, hand: Hand) -> None:
    with in_background(api, stream=True) as call:
        hand.release(hand.claim())
        second = hand.claim()
        hand.say(second, b'data: {"n": 2}\n\n', b"data: [DONE]\n\n")
        hand.say(second, b"", kind="end")
    assert call.response.text == 'data: {"n": 2}\n\ndata: [DONE]\n\n'


def test_a_job_that_fails_in_mid_stream_ends_with_an_error_event(api: Api, hand: Hand) -> None:
    with in_background(api, stream=True) as call:
        claimed = hand.claim()
        hand.say(claimed, b"data: {}\n\n")
        hand.fail(claimed, FailureReason.RUN_TIMEOUT, "it ran for too long")
    assert call.response.status_code == 200
    assert "it ran for too long" in call.response.text


def test_the_engines_bytes_pass_unchanged(api: Api, hand: Hand) -> None:
    said = ['data: {"a":  "é🙂"}\n\n'.encode(), b": comment\n\n", b"data: [DONE]\n\n"]
    with in_background(api, stream=True) as call:
        claimed = hand.claim()
        hand.say(claimed, *said)
        hand.say(claimed, b"", kind="end")
    assert call.response.content == b"".join(said)
    assert call.response.headers["content-type"] == "text/event-stream"
    assert call.response.headers["cache-control"] == "no-cache"
    assert call.response.headers["x-accel-buffering"] == "no"


def test_a_stream_says_now_and_then_that_it_is_alive(
    api: Api, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE_SECONDS", 0.05)
    with in_background(api, stream=True) as call:
        claimed = hand.claim()
        hand.say(claimed, b"data: {}\n\n")
        call.wait_for(b": keep-alive\n\n: keep-alive\n\n")
        hand.say(claimed, b"data: [DONE]\n\n")
        hand.say(claimed, b"", kind="end")
    assert call.response.text.startswith("data: {}\n\n: keep-alive\n\n")
    assert call.response.text.endswith("data: [DONE]\n\n")


def test_a_waiting_client_is_answered_although_redis_lost_the_event(
    api: Api, hand: Hand, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SILENCE_SECONDS", 0.1)
    with in_background(api) as call:
        claimed = hand.claim()
        forget_everything(sluice)
        assert lifecycle.apply([factories.make_success(claimed.token, result='{"choices": [7]}')])[0].moved
    assert call.response.json()["choices"] == [7]


def test_a_stream_goes_on_although_redis_lost_who_waits(
    api: Api, hand: Hand, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SILENCE_SECONDS", 0.1)
    with in_background(api, stream=True) as call:
        claimed = hand.claim()
        forget_everything(sluice)
        assert sluice.restore(without_mailbox(claimed), worker="worker-1", lease_seconds=30)
        hand.say(claimed, b"data: {}\n\n", b"data: [DONE]\n\n")
        hand.say(claimed, b"", kind="end")
    assert call.response.text == "data: {}\n\ndata: [DONE]\n\n"


def test_a_stream_whose_output_is_lost_is_an_error_not_to_be_retried(api: Api, hand: Hand) -> None:
    with in_background(api, stream=True) as call:
        hand.succeed(hand.claim(), {"choices": []})
    assert (call.response.status_code, call.response.json()["error"]["code"]) == (500, "output_lost")
    assert call.response.headers["x-should-retry"] == "false"


def test_a_client_that_waits_does_not_hold_its_prompt_in_memory(api: Api, hand: Hand) -> None:
    sent = {"role": "user", "content": f"mark {uuid.uuid4()}"}

    def is_held(thing: object) -> bool:
        if type(thing) is ApiRequest:  # isinstance asks proxies too, whose object may be gone
            return sent["content"].encode() in vars(thing).get("_body", b"")  # another's may be read, and gone
        return type(thing) is dict and thing is not sent and thing.get("content") == sent["content"]

    with in_background(api, messages=[sent]) as call:
        claimed = hand.claim()
        waiting.until(lambda: not any(map(is_held, gc.get_objects())))
        hand.succeed(claimed, {"choices": []})
    assert call.response.status_code == 200


def test_every_accepted_call_names_its_job(api: Api, echo: None) -> None:
    response = api.post(CHAT, factories.make_chat())
    assert Job.objects.get(id=uuid.UUID(response.headers["x-sluice-job-id"])).status == JobStatus.SUCCEEDED
    assert response.headers["x-sluice-tier"] == "standard"
