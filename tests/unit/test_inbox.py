"""Events of a job, in order and each once, while earlier ones are still being looked up."""

import asyncio
import uuid

import pytest

from inference import broker, executor
from inference.broker.types import CHUNK, Event
from inference.results import Inbox, Mailbox

JOB = uuid.uuid4()


def chunk(number: int) -> Event:
    return Event(f"{number}-0", JOB, CHUNK, None, str(number).encode())


async def test_events_are_taken_in_once_and_in_order() -> None:
    inbox = Inbox(JOB)
    for event in (chunk(1), chunk(2), chunk(2), chunk(1), chunk(3)):
        inbox.put(event)

    assert await inbox.get() == [chunk(1), chunk(2), chunk(3)]


async def test_what_arrives_during_a_look_up_comes_after_what_is_found() -> None:
    inbox = Inbox(JOB)
    inbox.hold()
    inbox.put(chunk(3))
    inbox.release([chunk(1), chunk(2), chunk(3)])

    assert await inbox.get() == [chunk(1), chunk(2), chunk(3)]


@pytest.fixture
async def mailbox(monkeypatch: pytest.MonkeyPatch) -> Mailbox:
    """A mailbox that nobody fills but the test."""

    async def idle(_: Mailbox) -> None:
        """Neither read nor sweep."""

    monkeypatch.setattr(Mailbox, "_read", idle)
    monkeypatch.setattr(Mailbox, "_sweep", idle)
    return Mailbox()


async def test_a_stream_joined_in_the_middle_misses_nothing(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mailbox.listen(JOB) as inbox:

        async def look_up(*_: object) -> list[list[Event]]:
            inbox.put(chunk(2))  # from the mailbox, before the stream's beginning is here
            return [[chunk(1)]]

        monkeypatch.setattr(executor, "run", look_up)
        await mailbox.catch_up([inbox])

        assert inbox.get_nowait() == [chunk(1), chunk(2)]


async def test_a_look_up_that_fails_loses_nothing_that_arrived(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mailbox.listen(JOB) as inbox:

        async def fail(*_: object) -> list[list[Event]]:
            inbox.put(chunk(1))
            await asyncio.sleep(0)
            raise broker.BrokerAway

        monkeypatch.setattr(executor, "run", fail)
        with pytest.raises(broker.BrokerAway):
            await mailbox.catch_up([inbox])

        assert inbox.get_nowait() == [chunk(1)]
