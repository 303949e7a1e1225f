"""The brokers: one for threads, with every verb; one for an event loop, with those of running streams."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import redis.asyncio

from inference.broker import events, keys, leases, places, queues, rates, scripts, spending, spills, starts
from inference.broker.pipe import Pipe
from inference.broker.types import CHUNK, Event, Token, Told

MAIL_PAGE: Final = 1_000
"""Messages read at a time."""


class Broker(
    queues.QueueVerbs,
    leases.LeaseVerbs,
    events.EventVerbs,
    rates.EstimateVerbs,
    places.PlaceVerbs,
    spending.SpendingVerbs,
    spills.SpillVerbs,
    starts.StartVerbs,
):
    """Fair queues under leases. Every verb is one atomic script; RedisError (`BrokerAway`) comes out as it is."""


class AsyncBroker:
    """The verbs that running streams need on an event loop. Not shared between loops."""

    def __init__(self, client: redis.asyncio.Redis, *, prefix: str) -> None:
        self.client = client
        self.prefix = prefix
        self._pipe = Pipe(client.connection_pool)
        self._mail = Pipe(client.connection_pool)
        """Reading a mailbox waits on the server: nothing else may stand behind it."""

    async def append(self, token: Token, chunks: Sequence[bytes], *, kind: str = CHUNK) -> bool:
        """Add one event per chunk to the job's stream and to waiting mailboxes. False: not ours, or cancelled."""
        ids = (token.job_id.bytes, token.claim_id.bytes)
        return bool(await scripts.call_async(self._pipe, "append", self.prefix, *ids, kind, "", *chunks))

    async def tell(self, token: Token, chunk: bytes, *, said: int, kind: str = CHUNK) -> Told:
        """Add one event, the one after `said` others of this claim. Asked again, it is added once all the same."""
        ids = (token.job_id.bytes, token.claim_id.bytes)
        return Told(await scripts.call_async(self._pipe, "append", self.prefix, *ids, kind, said, chunk))

    async def read_mailbox(
        self, mailbox: str, *, after: str = "0", block_ms: int = 1000
    ) -> tuple[str, list[Event]]:
        """Wait for messages after the cursor `after`; return the cursor to go on from, and what came."""
        key = keys.mailbox(self.prefix, mailbox)
        reply: Any = await self._mail.call("XREAD", "COUNT", MAIL_PAGE, "BLOCK", block_ms, "STREAMS", key, after)
        if not reply:
            return after, []
        [rows] = reply.values() if isinstance(reply, dict) else [reply[0][1]]  # as the protocol's version has it
        return rows[-1][0].decode(), events.read_mail(rows)

    async def has_lost_mail(self, mailbox: str, *, after: str) -> bool:
        """Whether messages after the cursor may have been dropped from a full mailbox. Ask after a full page."""
        rows = await self._pipe.call("XRANGE", keys.mailbox(self.prefix, mailbox), "-", "+", "COUNT", 1)
        return bool(rows) and events.order(rows[0][0].decode()) > events.order(after)

    async def stream(self, job_id: UUID, *, after: str = "0") -> list[Event]:
        """Return the job's own events after id `after`, oldest first."""
        rows = await self._pipe.call("XRANGE", keys.stream(self.prefix, job_id), f"({after}", "+")
        return events.read_stream(job_id, rows)

    async def close(self) -> None:
        """Close the connections."""
        await self._pipe.close()
        await self._mail.close()
        await self.client.aclose()
