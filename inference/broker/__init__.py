"""Fair queues under leases, in Redis: the only code that knows a Redis key. See `docs/architecture.md`."""

import os
from typing import Any, Final

import redis
import redis.asyncio
import redis.asyncio.retry
import redis.backoff
import redis.retry
from django.conf import settings
from redis.exceptions import RedisError as BrokerAway

from inference.broker import breaker
from inference.broker.claims import Request as ClaimRequest
from inference.broker.client import MAIL_PAGE, AsyncBroker, Broker
from inference.broker.events import order
from inference.broker.healing import may_heal
from inference.broker.places import JobPlace, Places, QueuePlace
from inference.broker.rates import LengthOf, Lessons
from inference.broker.spending import Standing, text_of
from inference.broker.spills import Bounds
from inference.broker.types import (
    CHUNK,
    END,
    GAP,
    INTERRUPTED,
    Claimed,
    Claims,
    DueLease,
    Ending,
    Entry,
    Event,
    QueueStats,
    Renewal,
    Token,
    Told,
)
from inference.guards import Cap, Credit, Load, Room, TierTerms

__all__ = [
    "CHUNK",
    "END",
    "GAP",
    "INTERRUPTED",
    "MAIL_PAGE",
    "AsyncBroker",
    "Bounds",
    "Broker",
    "BrokerAway",
    "Cap",
    "ClaimRequest",
    "Claimed",
    "Claims",
    "Credit",
    "DueLease",
    "Ending",
    "Entry",
    "Event",
    "JobPlace",
    "LengthOf",
    "Lessons",
    "Load",
    "Places",
    "QueuePlace",
    "QueueStats",
    "Renewal",
    "Room",
    "Standing",
    "TierTerms",
    "Token",
    "Told",
    "connect",
    "connect_shared",
    "get_broker",
    "may_heal",
    "new_async_broker",
    "order",
    "text_of",
]

TIMEOUT_SECONDS: Final = 5.0
"""Redis that does not answer in this time is away."""

_brokers: dict[int, Broker] = {}


def connect(url: str) -> redis.Redis:
    """Return a client that never sends a command twice: a claim or an append repeated is not the same again."""
    return redis.Redis.from_url(url, **_options())


def connect_shared(url: str) -> redis.Redis:
    """Return the same for who asks many things: after a timeout the next ones fail at once, for a moment."""
    return breaker.Client.from_url(url, **_options())


def get_broker() -> Broker:
    """Return the process's broker, made from the settings; a forked child makes its own."""
    pid = os.getpid()
    if pid not in _brokers:
        _brokers.clear()
        _brokers[pid] = Broker(connect_shared(settings.REDIS_URL), prefix=settings.BROKER_PREFIX)
    return _brokers[pid]


def _options() -> dict[str, Any]:
    return {
        "socket_timeout": TIMEOUT_SECONDS,
        "socket_connect_timeout": TIMEOUT_SECONDS,
        "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 0),
    }


def new_async_broker() -> AsyncBroker:
    """Return a broker for the running event loop, made from the settings; the caller closes it."""
    client = redis.asyncio.Redis.from_url(
        settings.REDIS_URL,
        # Else a connection that died unheard is waited on for ever. Longer than one call waits for a mailbox.
        socket_timeout=2 * TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        retry=redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
    )
    return AsyncBroker(client, prefix=settings.BROKER_PREFIX)
