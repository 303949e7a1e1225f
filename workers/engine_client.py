"""One HTTP client for every engine: OpenAI's protocol, over a Unix socket for those that a worker owns."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import aiohttp

from workers import metrics
from workers.engine import EngineCall, EngineDown, EngineFault, EngineGauges, EngineGone, EngineRefused

# A generation may rightly be silent for minutes, and its run timeout is the job's: none here but for connecting.
GENERATION: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)
# vLLM's API server answers these between steps of its own loop, which many requests can hold up for a while.
PROBE: Final = aiohttp.ClientTimeout(total=10)
_KEEP_ALIVE_SECONDS: Final = 30
"""Less than any engine keeps an idle connection, so that a request never meets one just being closed."""
CONNECTION_LOST: Final = (aiohttp.ClientError, OSError, TimeoutError)
"""What is not even an answer, or ends before its end."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What a request carries of ours beside the caller's own fields."""

    priority: bool = True
    """The field `priority`, which is vLLM's and not OpenAI's."""
    request_id: bool = True
    """The header `X-Request-Id`."""
    prompt_tokens: bool = False
    """The header `X-Prompt-Tokens`: for an engine without a tokenizer. One that has one must count for itself."""


DEFAULT_EXTRAS: Final = Extras()


class EngineClient:
    """Talks to one engine. Belongs to the event loop it was made in; `close` it there."""

    def __init__(self, session: aiohttp.ClientSession, *, url: str) -> None:
        """`url` is what comes before the paths; the client owns the session."""
        self.extras = DEFAULT_EXTRAS
        self._session = session
        self._url = url

    @classmethod
    def on_socket(cls, path: Path) -> Self:
        """Return the client of an engine that listens on a Unix socket."""
        # The engine bounds its batch and the gate bounds what is sent: no limit of connections here.
        connector = aiohttp.UnixConnector(str(path), limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS)
        return cls(aiohttp.ClientSession(connector=connector, timeout=GENERATION), url="http://engine")

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
            async with self._session.get(f"{self._url}/health", timeout=PROBE) as answer:
                return answer.status == 200
        except CONNECTION_LOST:
            return False

    async def gauges(self) -> EngineGauges:
        """See `Engine.gauges`."""
        try:
            async with self._session.get(f"{self._url}/metrics", timeout=PROBE, allow_redirects=False) as answer:
                return metrics.parse(await answer.text() if answer.status == 200 else "")
        except CONNECTION_LOST as error:
            raise self._lost(error) from error

    @contextlib.asynccontextmanager
    async def _answer(self, call: EngineCall, *, stream: bool) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send the call; leaving early, for whatever reason, closes the connection."""
        url, headers = f"{self._url}/v1/{call.endpoint}", self._headers(call)
        body = _with(call.body, priority=call.priority if self.extras.priority else None, stream=stream)
        try:
            async with self._session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    await self._raise_for(answer)
                yield answer
        except CONNECTION_LOST as error:
            raise self._lost(error) from error

    def _headers(self, call: EngineCall) -> dict[str, str]:
        ours = {"X-Request-Id": call.request_id} if self.extras.request_id else {}
        if self.extras.prompt_tokens and call.prompt_tokens is not None:
            ours["X-Prompt-Tokens"] = str(call.prompt_tokens)
        return {"Content-Type": "application/json", **ours}

    def _lost(self, error: Exception) -> EngineGone:
        kind = EngineDown if isinstance(error, aiohttp.ClientConnectorError) else EngineGone
        return kind(f"connection to the engine lost: {type(error).__name__}")

    async def _raise_for(self, answer: aiohttp.ClientResponse) -> None:
        body = await answer.read()
        if answer.status < 500:
            raise EngineRefused(answer.status, body)
        # vLLM answers 500 for a moment when its core has died, before its API server goes too.
        if not await self.is_healthy():
            raise EngineGone(f"the engine answered {answer.status} and is not healthy")
        raise EngineFault(f"the engine answered {answer.status}")  # its text may quote the prompt


def _with(body: bytes, *, priority: int | None, stream: bool) -> bytes:
    """Set the fields in a JSON object without parsing it: of two equal keys the last one counts."""
    ours = b"" if priority is None else b'"priority":%d,' % priority
    head = body.rstrip().removesuffix(b"}").rstrip()
    comma = b"" if head.endswith(b"{") else b","
    return b'%b%b%b"stream":%b}' % (head, comma, ours, b"true" if stream else b"false")
