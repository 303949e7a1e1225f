"""One HTTP client for every engine: OpenAI's protocol over a Unix socket."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Final

import aiohttp

from workers import metrics
from workers.engine import EngineCall, EngineFault, EngineGauges, EngineGone, EngineRefused

# A generation may rightly be silent for minutes, and its run timeout is the job's: none here but for connecting.
_GENERATION: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)
# vLLM's API server answers these between steps of its own loop, which many requests can hold up for a while.
_PROBE: Final = aiohttp.ClientTimeout(total=10)
_KEEP_ALIVE_SECONDS: Final = 30
"""Less than any engine keeps an idle connection, so that a request never meets one just being closed."""
_CONNECTION_LOST: Final = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError, TimeoutError)


class EngineClient:
    """Talks to one engine. Belongs to the event loop it was made in; `close` it there."""

    def __init__(self, socket_path: Path) -> None:
        # The engine bounds its batch and the gate bounds what is sent: no limit of connections here.
        connector = aiohttp.UnixConnector(str(socket_path), limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS)
        self._session = aiohttp.ClientSession("http://engine", connector=connector, timeout=_GENERATION)

    async def close(self) -> None:
        """Close all connections, which aborts what runs on them."""
        await self._session.close()

    async def generate(self, call: EngineCall) -> bytes:
        """See `Engine.generate`."""
        async with self._answer(call, stream=False) as answer:
            return await answer.read()

    async def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        """See `Engine.stream`."""
        async with self._answer(call, stream=True) as answer:
            async for piece in answer.content.iter_any():
                yield piece

    async def is_healthy(self) -> bool:
        """Whether the engine answers `/health` with 200: vLLM's says 503 once its core died."""
        try:
            async with self._session.get("/health", timeout=_PROBE) as answer:
                return answer.status == 200
        except _CONNECTION_LOST:
            return False

    async def gauges(self) -> EngineGauges:
        """See `Engine.gauges`."""
        try:
            async with self._session.get("/metrics", timeout=_PROBE) as answer:
                return metrics.parse(await answer.text())
        except _CONNECTION_LOST as error:
            raise EngineGone(f"no metrics from the engine: {error!r}") from error

    @contextlib.asynccontextmanager
    async def _answer(self, call: EngineCall, *, stream: bool) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the call; leaving early, for whatever reason, closes the connection."""
        headers = {"Content-Type": "application/json", "X-Request-Id": call.request_id}
        body = _with(call.body, priority=call.priority, stream=stream)
        try:
            async with self._session.post(f"/v1/{call.endpoint}", data=body, headers=headers) as answer:
                if answer.status != 200:
                    await self._raise_for(answer)
                yield answer
        except _CONNECTION_LOST as error:
            raise EngineGone(f"connection to the engine lost: {type(error).__name__}") from error

    async def _raise_for(self, answer: aiohttp.ClientResponse) -> None:
        body = await answer.read()
        if answer.status < 500:
            raise EngineRefused(answer.status, body)
        # vLLM answers 500 for a moment when its core has died, before its API server goes too.
        if not await self.is_healthy():
            raise EngineGone(f"the engine answered {answer.status} and is not healthy")
        raise EngineFault(f"the engine answered {answer.status}")  # its text may quote the prompt


def _with(body: bytes, *, priority: int, stream: bool) -> bytes:
    """Set the two fields in a JSON object without parsing it: of two equal keys the last one counts."""
    head = body.rstrip().removesuffix(b"}").rstrip()
    comma = b"" if head.endswith(b"{") else b","
    return b'%b%b"priority":%d,"stream":%b}' % (head, comma, priority, b"true" if stream else b"false")
