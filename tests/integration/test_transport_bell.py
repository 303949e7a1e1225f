"""The transport between two claims: credit that grows, the bell, the hub's timers, and a channel that closes."""

import functools
from typing import Any

import kombu
import pytest

from inference.broker import Broker, Load, TierTerms
from tests import factories
from tests.integration.transports import (
    FLUSH_SECONDS,
    NO_POLL_SECONDS,
    QUEUE,
    Connect,
    Inbox,
    Room,
    Timer,
    counts,
    publish_jobs,
    set_timer,
    settled,
)
from tests.waiting import until
from workers.asked import Asked

pytestmark = pytest.mark.once
pytest_plugins = ["tests.integration.transport_fixtures"]


def test_no_more_is_claimed_than_the_credit_and_the_rest_when_it_grows(ours: Broker, connect: Connect) -> None:
    publish_jobs(ours, 5)
    inbox = Inbox(connect(), QUEUE)
    room = Room(inbox, 0)
    assert inbox.hear() == []
    assert counts(ours, QUEUE) == (5, 0)
    room.sequences, room.kv_tokens = 10, 250
    assert len(inbox.hear_all(2)) == 2
    room.kv_tokens = 10_000
    inbox.channel.credit_changed()
    inbox.hear_until(lambda: len(inbox.messages) == 5)


def test_what_is_published_while_it_waits_arrives_at_once(ours: Broker, connect: Connect) -> None:
    inbox = Inbox(connect(), QUEUE)
    Room(inbox, 8)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    inbox.wait_at_the_bell()
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
    inbox.wait_at_the_bell()
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
    inbox.wait_at_the_bell()
    publish_jobs(ours, 1)
    until(lambda: counts(ours, QUEUE) == (0, 1), what="the job is claimed, though nobody turns the consumer")
    inbox.hear_all(1)


def test_what_came_with_the_bell_unread_goes_back_when_the_channel_closes(ours: Broker, connect: Connect) -> None:
    connection = connect()
    inbox = Inbox(connection, QUEUE)
    inbox.channel.brpop_timeout = NO_POLL_SECONDS
    Room(inbox, 8)
    inbox.wait_at_the_bell()
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
    inbox.wait_at_the_bell()
    connection.release()
    publish_jobs(ours, 1)
    assert counts(ours, QUEUE) == (1, 0), "nobody claims behind a bell that was left"
