"""The transport: ordinary Celery messages and jobs through fair queues under leases."""

from typing import Any

import pytest
import redis
from django.conf import settings

from inference.broker import Broker
from inference.routing import CONTROL_QUEUE
from tests.integration.transports import QUEUE, Connect, Inbox, Room, counts, publish_jobs, publish_task, settled
from workers import envelope, transport
from workers.held import HELD

pytestmark = pytest.mark.once
pytest_plugins = ["tests.integration.transport_fixtures"]


def test_a_task_published_is_consumed_whole_and_gone_when_acknowledged(ours: Broker, connect: Connect) -> None:
    publish_task(connect(), "reap")
    assert counts(ours) == (1, 0)
    [message] = Inbox(connect(), CONTROL_QUEUE).hear_all(1)
    assert message.decode() == "reap"
    assert counts(ours) == (0, 1)
    message.ack()
    settled()
    assert counts(ours) == (0, 0)
    assert not HELD.tokens()


def test_a_task_rejected_for_requeue_comes_again(ours: Broker, connect: Connect) -> None:
    publish_task(connect())
    inbox = Inbox(connect(), CONTROL_QUEUE)
    [message] = inbox.hear_all(1)
    message.reject(requeue=True)
    inbox.hear_until(lambda: len(inbox.messages) == 2)
    assert inbox.messages[1].delivery_tag != message.delivery_tag


def test_a_task_rejected_for_good_is_gone(ours: Broker, connect: Connect) -> None:
    publish_task(connect())
    [message] = Inbox(connect(), CONTROL_QUEUE).hear_all(1)
    message.reject()
    settled()
    assert counts(ours) == (0, 0)


def test_a_connection_that_closes_requeues_nothing_and_what_it_brought_can_still_be_acknowledged(
    ours: Broker, connect: Connect
) -> None:
    publish_task(connect())
    first = connect()
    [message] = Inbox(first, CONTROL_QUEUE).hear_all(1)
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
    [message] = inbox.hear_all(1)
    claimed = envelope.claim_of(message.headers)
    assert claimed.token.job_id == job_id
    assert message.delivery_tag == claimed.token.tag
    assert message.decode()[:2] == [[], {}]


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
    inbox.hear_all(1)
    client: Any = redis_client
    seconds, micros = client.time()
    [(_, ends_at_ms)] = client.zrange(f"{ours.prefix}l:{QUEUE}", 0, -1, withscores=True)
    assert 0 < ends_at_ms / 1000 - seconds - micros / 1e6 <= settings.LEASE_SECONDS
