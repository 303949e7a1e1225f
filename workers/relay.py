"""Passes a stream's output on to Redis: at once while few streams run, gathered for milliseconds under load."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from inference import broker
from inference.broker.types import CHUNK, END, Token, Told

logger = logging.getLogger(__name__)

FLUSH_SECONDS_PER_STREAM: Final = 0.001
"""So that all streams of a worker together make at most about 1,000 calls a second."""
MAX_FLUSH_SECONDS: Final = 0.05
BACKOFF_SECONDS: Final = (0.05, 1.0)
CANCEL_SECONDS: Final = 0.05
LAST_FLUSH_SECONDS: Final = 10.0
"""A finished answer is not kept waiting longer for a Redis that is away: its row is what counts."""


class Pace:
    """How many streams of this worker run, and so how long output is gathered."""

    def __init__(self) -> None:
        self.streams = 0

    @property
    def seconds(self) -> float:
        """Least time between two flushes of one stream."""
        return min(MAX_FLUSH_SECONDS, (self.streams - 1) * FLUSH_SECONDS_PER_STREAM)


class Relay:
    """One claim's output. Each flush becomes one event; what was sent is never sent twice."""

    def __init__(
        self, token: Token, streams: broker.AsyncBroker, pace: Pace, *, on_lost: Callable[[], None]
    ) -> None:
        """`on_lost` is called when the claim turns out to be ours no more, or cancelled."""
        self._token = token
        self._streams = streams
        self._pace = pace
        self._on_lost = on_lost
        self._waiting: list[bytes] = []
        self._sent = 0
        self._news = asyncio.Event()
        self._is_ending = False
        self._pause: asyncio.Future[None] | None = None
        self._writer: asyncio.Task[None] | None = None

    def put(self, event: bytes) -> None:
        """Pass on a whole event of the engine's stream."""
        self._waiting.append(event)
        self._news.set()

    async def __aenter__(self) -> "Relay":
        self._pace.streams += 1
        self._writer = asyncio.create_task(self._write())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pace.streams -= 1
        while self._writer and not self._writer.done():  # redis-py swallows one cancellation in ten
            self._writer.cancel()
            await asyncio.wait([self._writer], timeout=CANCEL_SECONDS)

    async def finish(self) -> None:
        """Return when all has been passed on, and that it is complete, or when that takes too long."""
        self._is_ending = True
        self._news.set()
        self._end_pause()
        if self._writer:
            done, _ = await asyncio.wait([self._writer], timeout=LAST_FLUSH_SECONDS)
            if not done:
                logger.warning("the end of a stream was lost", extra={"action": "stream_cut", **self._ids})

    @property
    def _ids(self) -> dict[str, object]:
        return {"job_id": self._token.job_id, "claim_id": self._token.claim_id}

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            gathered, self._waiting = b"".join(self._waiting), []
            if gathered and not await self._send(CHUNK, gathered):
                return
            if self._is_ending and not self._waiting:
                await self._send(END)
                return
            if not self._is_ending:
                await self._gather()

    async def _gather(self) -> None:
        """Let output come together for a while; the end is not kept waiting."""
        loop = asyncio.get_running_loop()
        self._pause = loop.create_future()
        timer = loop.call_later(max(0.0, self._pace.seconds), self._end_pause)
        try:
            await self._pause
        finally:
            timer.cancel()

    def _end_pause(self) -> None:
        if self._pause and not self._pause.done():
            self._pause.set_result(None)

    async def _send(self, kind: str, chunk: bytes = b"") -> bool:
        """Return whether to go on: not with a claim that was lost, nor with a stream that would have a hole."""
        told = await self._insist(kind, chunk)
        if told is Told.REFUSED:
            self._on_lost()
        elif told is Told.FORGOTTEN:  # the job goes on for its record, and its end says that output is missing
            logger.warning("Redis forgot a stream, it ends here", extra={"action": "stream_cut", **self._ids})
        self._sent += 1
        return told is Told.HEARD

    async def _insist(self, kind: str, chunk: bytes) -> Told:
        wait_seconds, is_said = BACKOFF_SECONDS[0], False
        while True:
            try:
                told = await self._streams.tell(self._token, chunk, said=self._sent, kind=kind)
            except broker.BrokerAway as error:
                if not is_said:  # once an outage: there are as many of these as streams
                    logger.warning("output waits: %s", error, extra={"action": "append_retried", **self._ids})
                is_said = True
            else:
                if told is not Told.FORGOTTEN or self._sent:
                    return told
                # Nothing was said, nothing is missing: the lease keeper restores the lease, or ends the claim.
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, BACKOFF_SECONDS[1])
