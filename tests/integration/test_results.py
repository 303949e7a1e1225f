"""What Redis is told of who waits is taken back, and what it lost is never passed off as complete."""

import pytest

from inference import lifecycle, results
from inference.broker import Broker
from tests import factories
from tests.integration.api_server import Api, Hand, forget_everything, in_background

pytest_plugins = ["tests.integration.api_fixtures"]


def watches(broker: Broker) -> int:
    """Jobs that some web process watches."""
    return sum(key.startswith(broker.prefix.encode() + b"w:") for key in broker.client.scan_iter(count=1000))


def ask_for_events(api: Api, job_id: str) -> str:
    return api.get(f"/api/v1/jobs/{job_id}/events/").text


def test_who_asks_after_the_end_leaves_no_watch_behind(api: Api, hand: Hand, sluice: Broker) -> None:
    job_id = api.post("/api/v1/jobs/", {"body": factories.make_chat()}).json()["id"]
    hand.succeed(hand.claim(), {"choices": [7]})
    assert "succeeded" in ask_for_events(api, job_id)
    assert watches(sluice) == 0


def test_who_asks_between_row_and_acknowledgement_is_told_and_so_are_those_who_wait(
    api: Api, hand: Hand, sluice: Broker
) -> None:
    job_id = api.post("/api/v1/jobs/", {"body": factories.make_chat()}).json()["id"]
    claimed = hand.claim()
    lifecycle.apply([factories.make_success(claimed.token)])
    assert "succeeded" in ask_for_events(api, job_id)
    assert watches(sluice) == 1, "others of this process may wait for the acknowledgement"
    sluice.ack(claimed.token, status="succeeded")
    assert watches(sluice) == 0


def test_a_stream_whose_end_was_lost_ends_with_an_error(
    api: Api, hand: Hand, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "SILENCE_SECONDS", 0.1)
    with in_background(api, stream=True) as call:
        claimed = hand.claim()
        hand.say(claimed, b"data: {}\n\n")
        call.wait_for(b"data: {}\n\n")
        forget_everything(sluice)
        lifecycle.apply([factories.make_success(claimed.token, result='{"choices": [7]}')])
    assert call.response.text.startswith("data: {}\n\n")
    assert '"output_lost"' in call.response.text
    assert "[DONE]" not in call.response.text
