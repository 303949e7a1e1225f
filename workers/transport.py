"""Celery's transport: fair queues under leases, claimed many at a time; see `docs/adr/0001-transport.md`.

A subclass of kombu's Redis transport. Remote control, its replies, events and fan-out stay stock. What differs: a
queue that is consumed with acknowledgement is claimed from through `inference.broker`, within a credit and under
leases that outlive the connection, so that a reconnect neither requeues, loses nor repeats anything.

Every Celery process loads this module, web and Flower too, to publish: it must stay light.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Empty
from typing import Any, Final

from kombu.transport import redis as kombu_redis
from kombu.utils import json
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import NoScriptError, RedisError, ResponseError

from inference import broker, routing
from inference.broker.types import Claimed, Claims
from inference.guards import Credit
from workers import envelope, leftovers
from workers.asked import Asked
from workers.deliveries import Message, QoS, settle
from workers.held import HELD
from workers.settlement import SETTLER, TASK_DONE
from workers.terms import IDLE_POLL_SECONDS, MAX_PULL, UNBOUNDED, Offer, PrefetchTerms, Terms

logger = logging.getLogger(__name__)

stock: Any = kombu_redis
"""Its stubs leave out most of what is overridden here; `tests/unit/test_celery_contract.py` holds it instead."""

NO_CREDIT: Final = Credit(0, 0)
MIN_WAIT_SECONDS: Final = 0.001
"""To Redis a wait of 0 has no end."""
CLOSE_SECONDS: Final = 2.0
"""How long a channel that closes waits for a reply that may carry claims."""
YIELD_SECONDS: Final = 1e-6
"""After a pull that was waited for: the thread that commits its starts goes on now, not after the next claim."""
PAUSE_SECONDS: Final = 1.0
"""After an error reply (memory full, a replica) the next claim waits this long."""
REPLY_MS: Final = 10_000
"""Whoever asked has its answers by then, or listens no more."""
REPLY_EXCHANGE: Final = "reply."
"""Exchanges of remote control's replies start so; their queues are plain lists that expire."""


class Channel(stock.Channel):  # type: ignore[misc]
    """A channel that claims. `terms` is set by the worker's bootstep; without it the prefetch count decides."""

    QoS = QoS
    Message = Message
    do_restore = False
    """Leases outlive the channel: nothing is requeued when it closes."""
    supports_batch_publish = False
    terms: Terms

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._plain: set[str] = set()
        """Queues consumed without acknowledgement: stock lists."""
        self._asked = Asked.NOTHING
        self._offered = Offer(NO_CREDIT)
        self._left = Offer(NO_CREDIT)
        """By the last claim that was answered, of what it offered."""
        self._is_drained = False
        """Whether the last claim brought all that fits: then the bell is worth waiting for."""
        self._has_grown = False
        self._is_outdated = False
        """Whether the claim under way goes by terms that are old: whatever it brings, ask anew."""
        self._again_seconds: float | None = None
        """Something waits for time to pass: ask again after so long."""
        self._timer: Any = None
        self.call_after: Callable[[float, Callable[[], None]], Any] = lambda _seconds, _call: None
        """The hub's timer, set by the worker's bootstep: a server ends a wait on its own tick only, 0.1 s."""
        self._paused_until = 0.0
        self._client_id: tuple[Any, int] | None = None
        super().__init__(*args, **kwargs)
        self.terms = PrefetchTerms(self.qos)

    # Consuming

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:  # noqa: FBT001 (kombu's)
        """Start consuming; without acknowledgement a queue is a stock list."""
        (self._plain.add if no_ack else self._plain.discard)(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def may_consume(self, within_prefetch: bool) -> bool:  # noqa: FBT001 (one answer of kombu's)
        """Whether to ask now. A reply that was asked for must be read: it may carry claims."""
        if not self._leased_queues():
            return within_prefetch
        return bool(self._in_poll) or (time.monotonic() >= self._paused_until and self._credit().sequences > 0)

    @property
    def is_claiming(self) -> bool:
        """Whether claims may be under way. Any thread may ask."""
        return self._asked is not Asked.NOTHING

    def credit_changed(self) -> None:
        """On the hub's thread: credit grew or is gone. Ask again where that makes a difference."""
        if self._asked is Asked.NOTHING:
            self._is_drained = self._is_drained and not self._is_hungry()  # else a claim is next, not the bell
            return
        self._has_grown = True
        if self._asked is Asked.BELL and (self._is_hungry() or self._credit().sequences < 1):
            self.ask_again()

    def ask_again(self) -> None:
        """On the hub's thread: leave the bell, since a claim may find more now."""
        self._is_drained, self._is_outdated = False, self._asked is not Asked.NOTHING
        if self._asked is not Asked.BELL or self._client_id is None:
            return
        try:
            broker.get_broker().client.client_unblock(self._client_id[1])
        except RedisError:  # the bell's own timeout comes soon
            logger.debug("the bell could not be left", exc_info=True)

    def _is_hungry(self) -> bool:
        return self._left.credit.sequences < 1 or self.terms.is_hungry(self._left)

    def _leased_queues(self) -> list[str]:
        return [queue for queue in self.active_queues if queue not in self._plain]

    def _credit(self) -> Credit:
        credit = self.terms.credit()
        return credit if credit.kv_tokens > 0 else NO_CREDIT

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Send a claim, or the wait for the bell; the hub calls `_brpop_read` when the reply is there."""
        queues = self._leased_queues()
        if not queues:
            super()._brpop_start(timeout)
        elif self._is_drained:
            self._wait_for_the_bell(queues, timeout or self.brpop_timeout)
        else:
            self._send(Asked.CLAIM, self._claim(queues))

    def _claim(self, queues: list[str]) -> tuple[Any, ...]:
        self._offered, self._is_outdated, self._has_grown = self._offer(), False, False
        return broker.get_broker().claim_command(self._offered.request(queues, worker=self.terms.worker))

    def _wait_for_the_bell(self, queues: list[str], seconds: float) -> None:
        self._learn_client_id()
        claim = self._claim(queues)
        audible = [queue for queue in queues if queue not in self._offered.paused]
        if self._again_seconds is not None:
            seconds = min(seconds, self._again_seconds)
            self._set_timer(self._again_seconds)
        bell = ("BLPOP", *broker.get_broker().bell_keys(audible or queues), seconds)
        self._send(Asked.BELL, bell, claim)

    def _set_timer(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.call_after(seconds, self.ask_again)

    def _offer(self) -> Offer:
        offer = self.terms.offer()
        return offer if offer.credit.kv_tokens > 0 else replace(offer, credit=NO_CREDIT)

    def _send(self, asked: Asked, *commands: tuple[Any, ...]) -> None:
        connection = self.client.connection
        connection.send_packed_command(connection.pack_commands(commands))
        self._asked, self._in_poll, self._brpop_sent_at = asked, connection, time.monotonic()

    def _learn_client_id(self) -> None:
        """Learn the connection's id on the server, by which another connection can end its wait."""
        connection = self.client.connection
        if self._client_id is None or self._client_id[0] is not connection._sock:
            connection.send_command("CLIENT", "ID")
            self._client_id = (connection._sock, int(connection.read_response()))

    def _brpop_read(self, **options: Any) -> bool:
        """Read what was asked for. Raises Empty if it brought no message."""
        if self._asked is Asked.NOTHING:
            return bool(super()._brpop_read(**options))
        was_waiting, claims = self._asked is Asked.BELL, self._read_reply()
        for claimed in claims.jobs:
            self._deliver(claimed)
        if not claims.jobs:
            raise Empty
        if was_waiting:
            time.sleep(YIELD_SECONDS)
        return True

    def _read_reply(self) -> Claims:
        asked, self._asked = self._asked, Asked.NOTHING
        connection = self.client.connection
        try:
            if asked is Asked.BELL:
                with contextlib.suppress(ResponseError):  # the claim behind it is refused likewise
                    self.client.parse_response(connection, "BLPOP")
            reply = self.client.parse_response(connection, "EVALSHA")
        except NoScriptError:
            broker.get_broker().load_claim()
            return Claims([])
        except ResponseError as error:
            self._pause(error)
            return Claims([])
        except self.connection_errors:
            connection.disconnect()
            raise
        finally:
            self._in_poll = None
        claims = broker.Broker.parse_claim(reply)
        self._left = leftovers.of(self._offered, claims.jobs)
        is_old = self._is_outdated or (self._has_grown and self._is_hungry())
        self._is_drained = not (is_old or leftovers.may_be_there(self._offered, claims))
        self._again_seconds = None if claims.again_ms is None else max(MIN_WAIT_SECONDS, claims.again_ms / 1000)
        return claims

    def _pause(self, error: Exception) -> None:
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        logger.error(
            "Redis refused a claim: %s", error, extra={"action": "claim_refused", "seconds": PAUSE_SECONDS}
        )

    def _deliver(self, claimed: Claimed) -> None:
        HELD.add(claimed)
        try:
            self.connection._deliver(envelope.message(claimed), claimed.queue)
        except Exception:  # one bad message must not take the others of this pull with it
            logger.exception("a message could not be delivered", extra={"action": "delivery_failed"})
            settle(claimed.token, requeue=not claimed.body)

    def _on_connection_disconnect(self, connection: Any) -> None:
        if self._in_poll is connection:
            self._asked = Asked.NOTHING
        super()._on_connection_disconnect(connection)

    def close(self) -> None:
        """Close; claims whose reply was still to come go back to their queues."""
        if self._in_poll and self._asked is not Asked.NOTHING:
            self.ask_again()
            try:
                for claimed in self._read_last().jobs:
                    SETTLER.release(claimed.token, event=False)
            except self.connection_errors:
                logger.warning("claims were lost: their leases run out", extra={"action": "claims_lost"})
        super().close()

    def _read_last(self) -> Claims:
        """Read the reply that is under way. Raises ConnectionError of redis-py if it does not come."""
        if not self.client.connection.can_read(timeout=CLOSE_SECONDS):
            self._asked, self._in_poll = Asked.NOTHING, None
            raise ConnectionLost("no reply from Redis")
        return self._read_reply()

    # Publishing and looking

    def _reply(self, queue: str, message: dict[str, Any]) -> None:
        """Answer whoever asked as stock kombu does; unlike there, an answer that comes too late does not stay."""
        with self.conn_or_acquire() as client, client.pipeline() as pipe:
            pipe.lpush(queue, json.dumps(message))
            pipe.pexpire(queue, REPLY_MS)
            pipe.execute()

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        """Publish an ordinary Celery task, stored whole; a reply of remote control goes the stock way."""
        exchange = message["properties"]["delivery_info"].get("exchange") or ""
        if exchange.startswith(REPLY_EXCHANGE):
            self._reply(queue, message)
        else:
            broker.get_broker().publish_task(queue, envelope.task_id(queue, message), json.dumps(message).encode())

    def _size(self, queue: str) -> int:
        return broker.get_broker().stats([queue])[0].jobs

    def _has_queue(self, queue: str, **_: Any) -> bool:  # noqa: ARG002 (kombu's signature)
        return True

    def _purge(self, queue: str) -> int:
        """Drop waiting Celery tasks. Jobs are never dropped: their rows say that they wait."""
        dropped = 0
        while queue == routing.CONTROL_QUEUE and (claims := self._claim_tasks(queue)):
            for claimed in claims:
                broker.get_broker().ack(claimed.token, status=TASK_DONE)
            dropped += len(claims)
        return dropped

    def _claim_tasks(self, queue: str) -> list[Claimed]:
        request = Offer(Credit(MAX_PULL, UNBOUNDED)).request([queue], worker=self.terms.worker)
        return broker.get_broker().claim(request).jobs


class Transport(stock.Transport):  # type: ignore[misc]
    """The transport behind `redis://` in this project."""

    Channel = Channel
    brpop_timeout = IDLE_POLL_SECONDS
    supports_batch_publish = False
    implements = stock.Transport.implements.extend(batch_publish=False)
