"""Streams, mailboxes and watchers: everything arrives once, in order, fenced; and nothing is kept for nobody."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import redis.asyncio
import uuid_utils.compat

from inference.broker import CHUNK, END, INTERRUPTED, AsyncBroker, Broker, Claimed, Event
from tests.integration.broker_jobs import claim, claim_one, keys, make_entry


@pytest.fixture
async def loop_broker(broker: Broker, valkey: str) -> AsyncIterator[AsyncBroker]:
    """The event loop's broker on the keys of `broker`."""
    loop_broker = AsyncBroker(redis.asyncio.Redis.from_url(valkey), prefix=broker.prefix)
    yield loop_broker
    await loop_broker.close()


async def read_mail(loop_broker: AsyncBroker, mailbox: str) -> list[Event]:
    _, events = await loop_broker.read_mailbox(mailbox, block_ms=1)
    return events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_a_streamed_job_speaks_to_its_stream_and_its_mailbox_with_the_same_ids(
    broker: Broker, loop_broker: AsyncBroker
) -> None:
    claimed = claim_one(broker, streamed=True, mailbox="web-1")
    broker.notify(claimed.token.job_id, kind="running")
    assert await loop_broker.append(claimed.token, [b"one", b"two"])
    assert await loop_broker.append(claimed.token, [], kind=END)
    assert broker.ack(claimed.token, status="succeeded")
    events = broker.stream(claimed.token.job_id)
    assert kinds(events) == ["running", CHUNK, CHUNK, END, "succeeded"]
    assert [e.data for e in events] == [b"", b"one", b"two", b"", b""]
    assert {e.claim_id for e in events} == {claimed.token.claim_id}
    assert await read_mail(loop_broker, "web-1") == events
    assert await loop_broker.stream(claimed.token.job_id) == events


async def test_reading_goes_on_after_the_last_event_seen(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, streamed=True, mailbox="web-1")
    await loop_broker.append(claimed.token, [b"one"])
    cursor, _ = await loop_broker.read_mailbox("web-1")
    (seen,) = broker.stream(claimed.token.job_id)
    await loop_broker.append(claimed.token, [b"two"])
    assert [e.data for e in broker.stream(claimed.token.job_id, after=seen.id)] == [b"two"]
    _, events = await loop_broker.read_mailbox("web-1", after=cursor)
    assert [e.data for e in events] == [b"two"]


async def test_an_empty_mailbox_keeps_its_cursor(loop_broker: AsyncBroker) -> None:
    assert await loop_broker.read_mailbox("nobody", after="5-0", block_ms=1) == ("5-0", [])


async def test_a_worker_that_lost_its_job_cannot_append(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, streamed=True)
    broker.release(claimed.token)
    (ours,) = claim(broker)
    assert not await loop_broker.append(claimed.token, [b"late"])
    assert await loop_broker.append(ours.token, [b"ours"])
    assert [e.data for e in broker.stream(ours.token.job_id)] == [b"ours"]


async def test_two_attempts_never_mix(broker: Broker, loop_broker: AsyncBroker) -> None:
    first = claim_one(broker, streamed=True)
    await loop_broker.append(first.token, [b"half of"])
    broker.release(first.token)
    (second,) = claim(broker)
    await loop_broker.append(second.token, [b"whole"])
    seen = [(e.kind, e.claim_id) for e in broker.stream(first.token.job_id)]
    ids = first.token.claim_id, second.token.claim_id
    assert seen == [(CHUNK, ids[0]), (INTERRUPTED, ids[0]), (CHUNK, ids[1])]


async def test_a_release_before_any_output_interrupts_nothing(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, streamed=True)
    broker.notify(claimed.token.job_id, kind="running")
    broker.release(claimed.token)
    (again,) = claim(broker)
    await loop_broker.append(again.token, [b"x"])
    broker.release(again.token, event=False)
    assert kinds(broker.stream(claimed.token.job_id)) == ["running", CHUNK]


async def test_a_cancelled_job_ends_for_its_watchers_once_and_says_no_more(
    broker: Broker, loop_broker: AsyncBroker
) -> None:
    claimed = claim_one(broker, streamed=True, mailbox="web-1")
    await loop_broker.append(claimed.token, [b"one"])
    broker.cancel(claimed.token.job_id)
    broker.cancel(claimed.token.job_id)
    assert not await loop_broker.append(claimed.token, [b"two"])
    assert broker.ack(claimed.token, status="cancelled")
    assert kinds(broker.stream(claimed.token.job_id)) == [CHUNK, "cancelled"]
    assert kinds(await read_mail(loop_broker, "web-1")) == [CHUNK, "cancelled"]


async def test_a_queued_job_that_expires_ends_for_its_mailbox(broker: Broker, loop_broker: AsyncBroker) -> None:
    entry = make_entry(mailbox="web-1")
    broker.publish([entry])
    assert broker.cancel(entry.job_id, status="expired") == "queued"
    (event,) = await read_mail(loop_broker, "web-1")
    assert (event.kind, event.job_id) == ("expired", entry.job_id)


async def test_a_leftover_lease_of_a_job_that_runs_under_another_claim_goes_without_a_word(
    broker: Broker, loop_broker: AsyncBroker
) -> None:
    leftover = claim_one(broker)
    job_id = leftover.token.job_id
    broker.watch(job_id, "web-1")
    assert broker.ack(leftover.token, status="running")
    broker.notify(job_id, kind="succeeded")
    assert kinds(await read_mail(loop_broker, "web-1")) == ["succeeded"]


async def test_a_job_that_nobody_watches_leaves_no_stream(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker)
    broker.notify(claimed.token.job_id, kind="running")
    assert await loop_broker.append(claimed.token, [b"unheard"])
    broker.ack(claimed.token, status="succeeded")
    assert keys(broker).isdisjoint({"s", "w", "mail"})


async def test_a_plain_call_hears_the_end_in_its_mailbox_and_keeps_no_stream(
    broker: Broker, loop_broker: AsyncBroker
) -> None:
    claimed = claim_one(broker, mailbox="web-1")
    broker.ack(claimed.token, status="failed")
    (event,) = await read_mail(loop_broker, "web-1")
    assert (event.kind, event.job_id, event.claim_id) == ("failed", claimed.token.job_id, claimed.token.claim_id)
    assert "s" not in keys(broker)


async def test_those_who_watch_hear_from_then_on(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, mailbox="web-1")
    job_id = claimed.token.job_id
    broker.watch(job_id, "web-2")
    broker.watch(job_id, "web-3")
    broker.unwatch(job_id, "web-3")
    await loop_broker.append(claimed.token, [b"x"])
    broker.ack(claimed.token, status="succeeded")
    for mailbox in ("web-1", "web-2"):
        assert kinds(await read_mail(loop_broker, mailbox)) == [CHUNK, "succeeded"]
    assert await read_mail(loop_broker, "web-3") == []
    assert "w" not in keys(broker)


async def test_a_mailbox_that_also_watches_hears_once(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, mailbox="web-1", streamed=True)
    broker.watch(claimed.token.job_id, "web-1")
    await loop_broker.append(claimed.token, [b"x"])
    assert kinds(await read_mail(loop_broker, "web-1")) == [CHUNK]


def ttl_seconds(broker: Broker, key: bytes) -> int:
    return int(broker.client.ttl(key))


async def test_everything_that_is_kept_for_readers_expires(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, mailbox="web-1", streamed=True)
    stream = broker.prefix.encode() + b"s:" + claimed.token.job_id.bytes
    mailbox = broker.prefix.encode() + b"mail:web-1"
    broker.watch(claimed.token.job_id, "web-2", seconds=100)
    assert 90 < ttl_seconds(broker, broker.prefix.encode() + b"w:" + claimed.token.job_id.bytes) <= 100
    await loop_broker.append(claimed.token, [b"x"])
    assert 0 < ttl_seconds(broker, mailbox) <= 60
    assert ttl_seconds(broker, stream) > 3600
    broker.ack(claimed.token, status="succeeded")
    assert 0 < ttl_seconds(broker, stream) <= 600


async def test_a_stream_and_a_mailbox_are_bounded(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, mailbox="web-1", streamed=True)
    for _ in range(60):
        await loop_broker.append(claimed.token, [b"x"] * 1000)
    assert broker.client.xlen(broker.prefix.encode() + b"s:" + claimed.token.job_id.bytes) < 20_500
    assert broker.client.xlen(f"{broker.prefix}mail:web-1") < 50_500


async def test_a_restored_lease_still_speaks_to_its_mailbox(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed: Claimed = claim_one(broker, mailbox="web-1", streamed=True)
    broker.discard([claimed.token.job_id])
    assert broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert await loop_broker.append(claimed.token, [b"on"])
    assert [e.data for e in await read_mail(loop_broker, "web-1")] == [b"on"]


async def test_the_loops_broker_knows_its_script_again_after_a_flush(
    broker: Broker, loop_broker: AsyncBroker
) -> None:
    claimed = claim_one(broker, streamed=True)
    for chunk in (b"one", b"two"):
        broker.client.script_flush()
        assert await loop_broker.append(claimed.token, [chunk])
    stranger = replace(claimed.token, claim_id=uuid_utils.compat.uuid7())
    assert not await loop_broker.append(stranger, [b"three"])
    assert [e.data for e in broker.stream(claimed.token.job_id)] == [b"one", b"two"]


async def test_a_mailbox_that_dropped_what_was_not_read_says_so(broker: Broker, loop_broker: AsyncBroker) -> None:
    claimed = claim_one(broker, streamed=True, mailbox="web-1")
    await loop_broker.append(claimed.token, [b"one"])
    cursor, _ = await loop_broker.read_mailbox("web-1")
    await loop_broker.append(claimed.token, [b"two", b"three"])
    assert not await loop_broker.has_lost_mail("web-1", after=cursor)
    [mail] = broker.client.scan_iter(match=f"{broker.prefix}mail:web-1", count=1000)
    broker.client.xtrim(mail, maxlen=1, approximate=False)
    assert await loop_broker.has_lost_mail("web-1", after=cursor)
