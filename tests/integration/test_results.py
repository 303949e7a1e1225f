"""What Redis is told of who waits is taken back, and what it lost is never passed off as complete."""

import asyncio
import re
from unittest.mock import AsyncMock, Mock

import django.db
import pytest

from inference import broker as broker_module
from inference import lifecycle, results
from inference.broker import Broker, BrokerAway
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


def test_a_stream_longer_than_what_is_kept_for_a_reader_comes_whole(
    api: Api, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_EVENTS", 2)
    job_id = api.post("/api/v1/jobs/", {"body": factories.make_chat(stream=True)}).json()["id"]
    claimed = hand.claim()
    for number in range(6):
        hand.say(claimed, f"data: {number}\n\n".encode())
    hand.succeed(claimed, {"choices": [7]})
    told = ask_for_events(api, job_id)
    assert [told.count(f'"chunks":[{number}]') for number in range(6)] == [1] * 6
    assert told.count('"succeeded"') == 1


def spoken(told: str) -> list[str]:
    """Kinds of events in order, chunks by what they say."""
    chunks = [re.search(r'"chunks":\[(\d+)\]', line) for line in told.splitlines()]
    kinds = re.findall(r"^event: (\w+)$", told, re.MULTILINE)
    numbers = iter([found[1] for found in chunks if found])
    return [next(numbers) if kind == "chunk" else kind for kind in kinds if kind != "state"]


def test_who_is_further_behind_than_a_stream_goes_back_is_told_of_the_gap(
    api: Api, hand: Hand, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_EVENTS", 3)
    job_id = api.post("/api/v1/jobs/", {"body": factories.make_chat(stream=True)}).json()["id"]
    claimed = hand.claim()
    for number in range(12):
        hand.say(claimed, f"data: {number}\n\n".encode())
    hand.succeed(claimed, {"choices": [7]})
    ids = [event.id for event in sluice.stream(claimed.token.job_id)]
    key = next(k for k in sluice.client.scan_iter() if k.endswith(b"s:" + claimed.token.job_id.bytes))
    sluice.client.xtrim(key, maxlen=len(ids) - 6, approximate=False)

    def after(event_id: str) -> list[str]:
        return spoken(api.get(f"/api/v1/jobs/{job_id}/events/?after={event_id}").text)

    kept = [str(number) for number in range(6, 12)]
    told = api.get(f"/api/v1/jobs/{job_id}/events/").text
    assert spoken(told) == ["gap", *kept]
    assert "output_lost" in told
    assert after(ids[2]) == ["gap", *kept]
    assert after(ids[6]) == kept[1:], "that is there"
    told_of_it = re.search(r"^id: (\S+)\nevent: gap$", told, re.MULTILINE)
    assert told_of_it
    assert after(told_of_it[1]) == kept, "told once"


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


@pytest.mark.parametrize(
    ("error", "is_explained"),
    [
        (BrokerAway("connection refused"), False),
        (django.db.OperationalError("no route"), False),
        (KeyError("ours"), True),
    ],
    ids=["redis", "database", "ours"],
)
async def test_an_outage_takes_one_line_of_the_log_and_a_fault_of_ours_a_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, is_explained: bool
) -> None:
    monkeypatch.setattr(results, "SILENCE_SECONDS", 0.02)
    box = Mock(_inboxes={}, catch_up=AsyncMock(side_effect=[error, asyncio.CancelledError]))
    with pytest.raises(asyncio.CancelledError):
        await results.Mailbox._sweep(box)
    assert bool(caplog.records[0].exc_info) is is_explained
    assert str(error) in caplog.records[0].getMessage()


def test_a_mailbox_is_waited_for_less_long_than_a_silent_connection_is_kept() -> None:
    kwargs = broker_module.new_async_broker().client.connection_pool.connection_kwargs
    assert kwargs["socket_timeout"] > results.BLOCK_MS / 1000
