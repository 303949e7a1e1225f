"""Output is passed on at once, gathered under load, never twice, and not at all once the claim is lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio
import uuid_utils.compat

from inference import broker as broker_module
from inference.broker import CHUNK, END, AsyncBroker, Broker, Claimed, ClaimRequest, Credit, Entry, Told
from tests import factories
from workers import relay
from workers.relay import Pace, Relay

pytestmark = pytest.mark.once
QUEUE = f"{factories.MODEL}.standard.short"


class Line(AsyncBroker):
    """A broker's connection that may break, before or after the server has done its work."""

    breaks_before = 0
    breaks_after = 0
    calls = 0

    async def tell(self, *args: Any, **kwargs: Any) -> Told:
        self.calls += 1
        if self.breaks_before:
            self.breaks_before -= 1
            raise broker_module.BrokerAway("broken before")
        done = await super().tell(*args, **kwargs)
        if self.breaks_after:
            self.breaks_after -= 1
            raise broker_module.BrokerAway("broken after")
        return done


@pytest.fixture
async def line(valkey: str, broker: Broker) -> AsyncIterator[Line]:
    """A connection for the test's own event loop."""
    made = Line(redis.asyncio.Redis.from_url(valkey), prefix=broker.prefix)
    yield made
    await made.close()


@pytest.fixture
def claimed(broker: Broker) -> Claimed:
    """A claim on a job that somebody streams."""
    entry = Entry(uuid_utils.compat.uuid7(), QUEUE, "acme", 10, 20, 1.0, streamed=True)
    broker.publish([entry])
    [found] = broker.claim(
        ClaimRequest((QUEUE,), credit=Credit(1, 100), limit=1, worker="w", lease_seconds=20)
    ).jobs
    return found


def heard(broker: Broker, claimed: Claimed) -> list[tuple[str, bytes]]:
    return [(event.kind, event.data) for event in broker.stream(claimed.token.job_id)]


def forget(broker: Broker) -> None:
    """Lose what Redis holds of this test."""
    pattern = broker.prefix.replace("{", "\\{") + "*"
    broker.client.delete(*broker.client.scan_iter(match=pattern, count=1000))


def lost() -> None:
    raise AssertionError("the claim was not lost")


async def test_output_is_passed_on_and_ends_with_the_end(broker: Broker, line: Line, claimed: Claimed) -> None:
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        while not heard(broker, claimed):  # noqa: ASYNC110 (the fact is in Redis)
            await asyncio.sleep(0.001)
        running.put(b"b")
        await running.finish()
    assert heard(broker, claimed) == [(CHUNK, b"a"), (CHUNK, b"b"), (END, b"")]


async def test_what_comes_together_goes_together(broker: Broker, line: Line, claimed: Claimed) -> None:
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        for piece in (b"a", b"b", b"c"):
            running.put(piece)
        await running.finish()
    assert heard(broker, claimed) == [(CHUNK, b"abc"), (END, b"")]


async def test_a_flush_whose_answer_was_lost_is_not_repeated(
    broker: Broker, line: Line, claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "BACKOFF_SECONDS", (0.0, 0.0))
    line.breaks_after = 1
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        await running.finish()
    assert heard(broker, claimed) == [(CHUNK, b"a"), (END, b"")]


async def test_a_flush_that_did_not_arrive_is_repeated(
    broker: Broker, line: Line, claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "BACKOFF_SECONDS", (0.0, 0.0))
    line.breaks_before = 2
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        await running.finish()
    assert heard(broker, claimed) == [(CHUNK, b"a"), (END, b"")]


async def test_a_lost_claim_is_told_once_and_nothing_is_written(
    broker: Broker, line: Line, claimed: Claimed
) -> None:
    broker.release(claimed.token)
    told: list[str] = []
    async with Relay(claimed.token, line, Pace(), on_lost=lambda: told.append("lost")) as running:
        running.put(b"a")
        await running.finish()
    assert told == ["lost"]
    assert heard(broker, claimed) == []


async def test_a_stream_that_is_left_ends_although_the_client_swallows_its_cancellation(
    line: Line, claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = asyncio.Event()

    async def swallow(*_: Any, **__: Any) -> Told:
        called.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return Told.HEARD

    monkeypatch.setattr(line, "tell", swallow)
    async with asyncio.timeout(5), Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        await called.wait()


async def test_a_stream_that_redis_forgot_has_no_hole_but_an_end_and_its_claim_goes_on(
    broker: Broker, line: Line, claimed: Claimed
) -> None:
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        while not heard(broker, claimed):  # noqa: ASYNC110 (the fact is in Redis)
            await asyncio.sleep(0.001)
        forget(broker)
        assert broker.restore(claimed, worker="w", lease_seconds=20)
        running.put(b"b")
        await running.finish()
    assert heard(broker, claimed) == []


@pytest.mark.parametrize("is_restored", [True, False])
async def test_a_stream_that_redis_forgot_before_it_began_begins_with_its_restored_lease(
    broker: Broker, line: Line, claimed: Claimed, *, is_restored: bool
) -> None:
    forget(broker)
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        while line.calls < 2:  # noqa: ASYNC110 (it tries again)
            await asyncio.sleep(0.001)
        if is_restored:
            assert broker.restore(claimed, worker="w", lease_seconds=20)
            await running.finish()
    assert heard(broker, claimed) == ([(CHUNK, b"a"), (END, b"")] if is_restored else [])


async def test_a_finished_answer_is_not_kept_waiting_for_a_redis_that_is_away(
    line: Line, claimed: Claimed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "LAST_FLUSH_SECONDS", 0.05)
    line.breaks_before = 1_000
    async with Relay(claimed.token, line, Pace(), on_lost=lost) as running:
        running.put(b"a")
        await asyncio.wait_for(running.finish(), 5)


def test_one_stream_is_not_held_back_and_many_are_gathered() -> None:
    pace = Pace()
    pace.streams = 1
    assert pace.seconds == 0
    pace.streams = 20
    assert 0 < pace.seconds < relay.MAX_FLUSH_SECONDS
    pace.streams = 1_000
    assert pace.seconds == relay.MAX_FLUSH_SECONDS
