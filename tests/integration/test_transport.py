"""The transport: ordinary Celery messages and jobs through fair queues under leases."""

import contextlib
import functools
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kombu
import pytest
import redis
import uuid_utils.compat
from django.conf import settings

from inference import broker as broker_module
from inference.broker import Broker, Credit, Entry, Load, TierTerms
from inference.guards import NO_LOAD
from inference.routing import CONTROL_QUEUE
from tests import factories
from tests.waiting import until
from workers import envelope, transport
from workers.asked import Asked
from workers.held import HELD
from workers.settlement import SETTLER
from workers.terms import Offer

QUEUE = f"{factories.MODEL}.standard.short"
FLUSH_SECONDS = 5.0
NO_POLL_SECONDS = 60
"""Waiting for the bell ends by the bell alone: the poll that backs it up comes too late for any test."""


Connect = Callable[[], Any]
"""Makes connections; kombu's stubs leave out most of their transport."""


class Room:
    """Terms of so many jobs, of 100 tokens each, and tokens at a time."""

    worker = "worker-1@test"

    def __init__(self, inbox: "Inbox", sequences: int, kv_tokens: int = 10_000) -> None:
        self.inbox, self.sequences, self.kv_tokens = inbox, sequences, kv_tokens
        self.paused: frozenset[str] = frozenset()
        self.tiers: dict[str, TierTerms] = {}
        self.load = NO_LOAD
        inbox.channel.terms = self

    def credit(self) -> Credit:
        taken = len(self.inbox.messages)
        return Credit(self.sequences - taken, self.kv_tokens - 100 * taken)

    def offer(self) -> Offer:
        return Offer(self.credit(), tiers=self.tiers, paused=self.paused, load=self.load)

    def is_hungry(self, offered: Offer) -> bool:
        return offered.credit.kv_tokens < 1_000


@dataclass
class Timer:
    """One that the hub would keep."""

    seconds: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


def set_timer(timers: list[Timer], seconds: float, call: Callable[[], None]) -> Timer:
    timers.append(Timer(seconds, call))
    return timers[-1]


class Inbox:
    """A consumer of one queue, and what came."""

    def __init__(self, connection: kombu.Connection, queue: str, **options: Any) -> None:
        self.messages: list[Any] = []
        self.connection = connection
        self.consumer = kombu.Consumer(
            connection.channel(),
            [kombu.Queue(queue, kombu.Exchange(options.pop("exchange", queue)), routing_key=queue)],
            on_message=self.messages.append,
            **options,
        )
        self.consumer.consume()

    @property
    def channel(self) -> Any:
        return self.consumer.channel

    def hear(self, *, seconds: float = 0.05) -> list[Any]:
        """Listen for so long, and return all that came so far."""
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            with contextlib.suppress(socket.timeout):
                self.connection.drain_events(timeout=left)
        return self.messages

    def hear_until(self, fact: Callable[[], bool]) -> None:
        until(lambda: self.hear(seconds=0.01) is not None and fact())


@pytest.fixture
def ours(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """The broker that the transport finds."""
    monkeypatch.setattr(broker_module, "get_broker", lambda: broker)
    monkeypatch.setattr(SETTLER, "_connect", lambda: broker)
    yield broker
    for token in HELD.tokens():
        HELD.drop(token)


@pytest.fixture
def connect(ours: Broker, valkey: str) -> Iterator[Connect]:
    """Makes connections, and closes them in the end."""
    with contextlib.ExitStack() as opened:

        def make() -> Any:
            options = {"global_keyprefix": ours.prefix}
            made = kombu.Connection(valkey, transport=transport.Transport, transport_options=options)
            return opened.enter_context(made)

        yield make


def publish_task(connection: kombu.Connection, body: str = "work") -> None:
    exchange = kombu.Exchange(CONTROL_QUEUE)
    queue = kombu.Queue(CONTROL_QUEUE, exchange, routing_key=CONTROL_QUEUE)
    connection.Producer().publish(body, exchange=exchange, routing_key=CONTROL_QUEUE, declare=[queue])


def publish_jobs(broker: Broker, count: int, **overrides: Any) -> list[Any]:
    values: dict[str, Any] = {
        "queue": QUEUE,
        "tenant": "acme",
        "prompt_tokens": 60,
        "expected_tokens": 40,
        "estimate": 1.0,
    }
    ids = [uuid_utils.compat.uuid7() for _ in range(count)]
    broker.publish([Entry(job_id=job_id, **values | overrides) for job_id in ids])
    return ids


def counts(broker: Broker, queue: str = CONTROL_QUEUE) -> tuple[int, int]:
    """Jobs waiting, and leased."""
    [stats] = broker.stats([queue])
    return stats.jobs, stats.leases


def settled() -> None:
    assert SETTLER.flush(seconds=FLUSH_SECONDS)


def test_a_task_published_is_consumed_whole_and_gone_when_acknowledged(ours: Broker, connect: Connect) -> None:
    publish_task(connect(), "reap")
    assert counts(ours) == (1, 0)
    [message] = Inbox(connect(), CONTROL_QUEUE).hear()
    assert message.decode() == "reap"
    assert counts(ours) == (0, 1)
    message.ack()
    settled()
    assert counts(ours) == (0, 0)
    assert not HELD.tokens()


def test_a_task_rejected_for_requeue_comes_again(ours: Broker, connect: Connect) -> None:
    publish_task(connect())
    inbox = Inbox(connect(), CONTROL_QUEUE)
    [message] = inbox.hear()
    message.reject(requeue=True)
    inbox.hear_until(lambda: len(inbox.messages) == 2)
    assert inbox.messages[1].delivery_tag != message.delivery_tag


def test_a_task_rejected_for_good_is_gone(ours: Broker, connect: Connect) -> None:
    publish_task(connect())
    [message] = Inbox(connect(), CONTROL_QUEUE).hear()
    message.reject()
    settled()
    assert counts(ours) == (0, 0)


def test_a_connection_that_closes_requeues_nothing_and_what_it_brought_can_still_be_acknowledged(
    ours: Broker, connect: Connect
) -> None:
    publish_task(connect())
    first = connect()
    [message] = Inbox(first, CONTROL_QUEUE).hear()
    first.release()
    assert counts(ours) == (0, 1)
    assert Inbox(connect(), CONTROL_QUEUE).hear() == []
    message.ack()
    settled()
    assert counts(ours) == (0, 0)


def test_a_job_arrives_as_an_envelope_with_its_claim_and_without_a_prompt(ours: Broker, connect: Connect) -> None:
    [job_id] = publish_jobs(ours, 1)
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    [message] = inbox.hear()
    claimed = envelope.claim_of(message.headers)
    assert claimed.token.job_id == job_id
    assert message.delivery_tag == claimed.token.tag
    assert message.decode()[:2] == [[], {}]


def test_no_more_is_claimed_than_the_credit_and_the_rest_when_it_grows(ours: Broker, connect: Connect) -> None:
    publish_jobs(ours, 5)
    inbox = Inbox(connect(), QUEUE)
    room = Room(inbox, 0)
    assert inbox.hear() == []
    assert counts(ours, QUEUE) == (5, 0)
    room.sequences, room.kv_tokens = 10, 250
    assert len(inbox.hear()) == 2
    room.kv_tokens = 10_000
    inbox.channel.credit_changed()
    inbox.hear_until(lambda: len(inbox.messages) == 5)


def test_what_is_published_while_it_waits_arrives_at_once(ours: Broker, connect: Connect) -> None:
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.hear()
    publish_jobs(ours, 1)
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_credit_that_grows_ends_the_wait_for_the_bell_where_a_job_did_not_fit(
    ours: Broker, connect: Connect
) -> None:
    publish_jobs(ours, 1)
    inbox = Inbox(connect(), QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    room = Room(inbox, 8, kv_tokens=50)
    assert inbox.hear() == []
    room.kv_tokens = 100
    inbox.channel.credit_changed()
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_credit_that_grows_while_a_claim_is_under_way_is_not_missed(ours: Broker, connect: Connect) -> None:
    publish_jobs(ours, 1)
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    room = Room(inbox, 8, kv_tokens=50)
    connection.transport.cycle.on_poll_start()  # sends the claim
    room.kv_tokens = 100
    inbox.channel.credit_changed()
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_room_that_came_before_the_wait_for_the_bell_and_is_told_of_after_is_not_missed(
    ours: Broker, connect: Connect
) -> None:
    publish_jobs(ours, 2)
    inbox = Inbox(connect(), QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    room = Room(inbox, 8, kv_tokens=150)
    ours.client.delete(*ours.bell_keys([QUEUE]))

    def take_and_grow(message: Any) -> None:
        inbox.messages.append(message)
        room.kv_tokens = 10_000

    inbox.consumer.on_message = take_and_grow
    inbox.hear_until(lambda: len(inbox.messages) == 1)
    assert len(inbox.hear()) == 1  # with all that room it waits for the bell
    inbox.channel.credit_changed()
    inbox.hear_until(lambda: len(inbox.messages) == 2)


def test_a_claim_that_brought_all_that_fits_is_followed_by_the_bell_and_another_by_a_claim(
    ours: Broker, connect: Connect
) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    Room(inbox, 3)
    ours.load_claim()
    publish_jobs(ours, 2)
    connection.drain_events(timeout=FLUSH_SECONDS)
    connection.transport.cycle.on_poll_start()
    assert (len(inbox.messages), inbox.channel._asked) == (2, Asked.BELL)
    Room(inbox, 6)
    publish_jobs(ours, 5)
    inbox.hear_until(lambda: len(inbox.messages) == 6)
    Room(inbox, 9)
    connection.transport.cycle.on_poll_start()
    assert inbox.channel._asked is Asked.CLAIM


def test_what_waits_for_time_to_pass_is_asked_for_again_when_it_has(ours: Broker, connect: Connect) -> None:
    inbox = Inbox(connect(), QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    room = Room(inbox, 8)
    room.tiers, room.load = {"standard": TierTerms(gather_jobs=5, gather_seconds=0.2)}, Load(1, 8)
    publish_jobs(ours, 1)
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_of_the_hubs_timers_for_asking_again_one_is_kept(ours: Broker, connect: Connect) -> None:
    timers: list[Timer] = []
    inbox = Inbox(connect(), QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.channel.call_after = functools.partial(set_timer, timers)
    room = Room(inbox, 8)
    room.tiers, room.load = {"standard": TierTerms(gather_jobs=5, gather_seconds=30)}, Load(1, 8)
    publish_jobs(ours, 1)
    inbox.hear_until(lambda: len(timers) == 2)  # it rang, and was claimed no more than before
    assert [timer.is_cancelled for timer in timers] == [True, False]
    assert 0 < timers[1].seconds <= 30
    room.tiers = {}
    timers[1].call()
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_a_queue_that_is_resumed_is_claimed_from_though_the_worker_waits_at_the_bell(
    ours: Broker, connect: Connect
) -> None:
    inbox = Inbox(connect(), QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    room = Room(inbox, 8)
    room.paused = frozenset({QUEUE})
    publish_jobs(ours, 1)
    assert inbox.hear() == []
    room.paused = frozenset()
    inbox.channel.ask_again()
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_the_bell_of_a_paused_queue_wakes_nobody(ours: Broker, connect: Connect) -> None:
    paused = f"{factories.MODEL}.bulk.short"
    inbox = Inbox(connect(), QUEUE)
    inbox.consumer.add_queue(kombu.Queue(paused, kombu.Exchange(paused), routing_key=paused))
    inbox.consumer.consume()
    room = Room(inbox, 8)
    room.paused = frozenset({paused})
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.hear()
    publish_jobs(ours, 1, queue=paused)
    room.paused = frozenset()  # nothing tells the worker
    assert inbox.hear() == []
    publish_jobs(ours, 1)
    inbox.hear_until(lambda: len(inbox.messages) == 2)


def test_claims_whose_reply_nobody_read_go_back_when_the_channel_closes(ours: Broker, connect: Connect) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    Room(inbox, 8)
    publish_jobs(ours, 3)
    ours.load_claim()  # nobody would hear that the server does not know it
    connection.transport.cycle.on_poll_start()  # sends the claim
    until(lambda: counts(ours, QUEUE) == (0, 3))
    connection.release()
    settled()
    assert counts(ours, QUEUE) == (3, 0)


def test_the_bell_brings_the_claim_with_it(ours: Broker, connect: Connect) -> None:
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.hear()
    publish_jobs(ours, 1)
    until(lambda: counts(ours, QUEUE) == (0, 1), what="the job is claimed, though nobody turns the consumer")
    assert len(inbox.hear()) == 1


def test_what_came_with_the_bell_unread_goes_back_when_the_channel_closes(ours: Broker, connect: Connect) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    Room(inbox, 8)
    inbox.hear()
    publish_jobs(ours, 1)
    until(lambda: counts(ours, QUEUE) == (0, 1))
    connection.release()
    settled()
    assert counts(ours, QUEUE) == (1, 0)


def test_a_channel_that_closes_does_not_wait_for_the_bell(ours: Broker, connect: Connect) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    Room(inbox, 8)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.hear()
    connection.release()
    publish_jobs(ours, 1)
    assert counts(ours, QUEUE) == (1, 0), "nobody claims behind a bell that was left"


def test_a_server_that_forgot_the_scripts_is_taught_again(
    ours: Broker, connect: Connect, redis_client: redis.Redis
) -> None:
    publish_jobs(ours, 1)
    redis_client.script_flush()
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    inbox.hear_until(lambda: len(inbox.messages) == 1)


def test_a_message_for_a_queue_that_is_consumed_no_more_goes_back(ours: Broker, connect: Connect) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    Room(inbox, 8)
    ours.load_claim()
    publish_jobs(ours, 1)
    connection.transport.cycle.on_poll_start()
    inbox.consumer.cancel()
    inbox.channel._brpop_read()
    settled()
    assert inbox.messages == []
    assert counts(ours, QUEUE) == (1, 0)


def test_replies_of_remote_control_are_plain_lists_without_leases(
    ours: Broker, connect: Connect, redis_client: redis.Redis
) -> None:
    exchange = "reply.celery.pidbox"
    inbox = Inbox(connect(), "box", exchange=exchange, no_ack=True)
    connect().Producer().publish("pong", exchange=exchange, routing_key="box")
    assert 0 < redis_client.pttl(f"{ours.prefix}box") <= transport.REPLY_MS, "nobody may be there to take it"
    inbox.hear_until(lambda: len(inbox.messages) == 1)
    assert not HELD.tokens()
    assert counts(ours, "box") == (0, 0)


def test_every_key_of_kombu_itself_is_under_the_prefix(
    ours: Broker, connect: Connect, redis_client: redis.Redis
) -> None:
    before = set(redis_client.scan_iter())
    publish_task(connect())
    made = set(redis_client.scan_iter()) - before
    assert made
    assert all(key.startswith(ours.prefix.encode()) for key in made)


def test_a_purge_drops_tasks_but_never_jobs(ours: Broker, connect: Connect) -> None:
    connection = connect()
    publish_task(connection)
    publish_task(connection)
    publish_jobs(ours, 1)
    channel = connection.channel()
    assert channel.queue_purge(CONTROL_QUEUE) == 2
    assert channel.queue_purge(QUEUE) == 0
    assert counts(ours, QUEUE) == (1, 0)


def test_declaring_a_queue_says_how_many_wait(ours: Broker, connect: Connect) -> None:
    publish_jobs(ours, 3)
    assert connect().channel().queue_declare(QUEUE).message_count == 3


def test_the_lease_lasts_as_long_as_the_settings_say(
    ours: Broker, connect: Connect, redis_client: redis.Redis
) -> None:
    publish_jobs(ours, 1)
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    inbox.hear()
    client: Any = redis_client
    seconds, micros = client.time()
    [(_, ends_at_ms)] = client.zrange(f"{ours.prefix}l:{QUEUE}", 0, -1, withscores=True)
    assert 0 < ends_at_ms / 1000 - seconds - micros / 1e6 <= settings.LEASE_SECONDS
