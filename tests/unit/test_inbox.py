"""Events of a job, in order and each once, while earlier ones are still being looked up."""

import asyncio
import uuid
from unittest.mock import AsyncMock

import pytest

from inference import broker, executor, results
from inference.broker import AsyncBroker, order
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


async def test_a_slow_reader_costs_a_bounded_number_of_events_and_misses_none(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_EVENTS", 3)
    stream = [chunk(number) for number in range(1, 12)]

    async def look_up(_work: object, _mailbox: str, asked: list[tuple[uuid.UUID, str]]) -> list[list[Event]]:
        [(_, after)] = asked
        return [[event for event in stream if order(event.id) > order(after)][: results.MAX_EVENTS]]

    monkeypatch.setattr(executor, "run", look_up)
    with mailbox.listen(JOB) as inbox:
        for event in stream[:-1]:
            inbox.put(event)
        seen = inbox.get_nowait()
        assert len(seen) == 3
        inbox.put(stream[-1])  # later than what was left out: it must not overtake
        while len(seen) < len(stream):
            seen += (more := await inbox.get())
            assert len(more) <= 3
    assert seen == stream
    assert not inbox.is_behind


async def test_a_reader_that_is_behind_waits_out_a_redis_that_is_away(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_EVENTS", 1)

    async def fail(*_: object) -> list[list[Event]]:
        raise broker.BrokerAway

    monkeypatch.setattr(executor, "run", fail)
    with mailbox.listen(JOB) as inbox:
        for number in (1, 2, 3):
            inbox.put(chunk(number))
        assert inbox.get_nowait() == [chunk(1)]
        reading = asyncio.create_task(inbox.get())
        await asyncio.sleep(0)
        inbox.release([chunk(2)], is_all=False)  # as the sweep does when Redis is back
        assert await reading == [chunk(2)]
        assert inbox.is_behind


@pytest.mark.parametrize("has_lost", [True, False])
async def test_mail_that_a_full_mailbox_dropped_is_looked_up_before_what_came_after_it(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, *, has_lost: bool
) -> None:
    monkeypatch.setattr(broker, "MAIL_PAGE", 1)
    monkeypatch.setattr(AsyncBroker, "has_lost_mail", AsyncMock(return_value=has_lost))

    async def look_up(*_: object) -> list[list[Event]]:
        return [[chunk(1), chunk(2)]]

    monkeypatch.setattr(executor, "run", look_up)
    with mailbox.listen(JOB) as inbox:
        await mailbox._make_up_for_lost("5-0", 1)
        inbox.put(chunk(2))
        assert inbox.get_nowait() == ([chunk(1), chunk(2)] if has_lost else [chunk(2)])
