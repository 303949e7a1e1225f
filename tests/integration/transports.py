"""A consumer on the transport, its room and its timers."""

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kombu
import uuid_utils.compat

from inference.broker import Broker, Credit, Entry, TierTerms
from inference.guards import NO_LOAD
from inference.routing import CONTROL_QUEUE
from tests import factories
from tests.waiting import PATIENCE_SECONDS, until
from workers.asked import Asked
from workers.settlement import SETTLER
from workers.terms import Offer

QUEUE = f"{factories.MODEL}.standard.short"
FLUSH_SECONDS = PATIENCE_SECONDS
NO_POLL_SECONDS = 120
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

    def hear_all(self, count: int) -> list[Any]:
        """Listen until so many came, and return all."""
        self.hear_until(lambda: len(self.messages) >= count)
        return self.messages

    def wait_at_the_bell(self) -> None:
        """Listen until nothing is there to be claimed, and the bell is waited for."""
        self.hear_until(lambda: self.channel._asked is Asked.BELL)


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
