"""The client of an engine that is not ours: over TCP or TLS, with a key, and with whatever stands in between."""

import json
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Self

import aiohttp

from workers.engine import EngineAway, EngineFault, EngineGone, EngineRefused
from workers.engine_client import CONNECTION_LOST, PROBE, EngineClient

_HEALTH: Final = "/health"
_MODELS: Final = "/v1/models"
# No limit but for connecting, TLS and the look-up of the name included: see `engine_client.GENERATION`.
_GENERATION: Final = aiohttp.ClientTimeout(total=None, connect=10, sock_connect=5)
_KEEP_ALIVE_SECONDS: Final = 2.0
"""Less than the 5 s that vLLM by itself keeps an idle connection: a request never meets one just being closed."""
_NEVER_BEGAN: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_NO_SUCH_PAGE: Final = frozenset({404, 405, 501})
_KEY_REFUSED: Final = frozenset({401, 403})
_NOT_NOW: Final = frozenset({429, 502, 503, 504})
"""Of an engine that is there: it, or what stands before it, has no room at the moment."""


class RemoteClient(EngineClient):
    """Talks to one URL, follows no redirect, and so shows the key to no other."""

    def __init__(self, session: aiohttp.ClientSession, *, url: str, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called on the event loop when a call finds the engine gone or away."""
        super().__init__(session, url=url)
        self._on_lost = on_lost

    @classmethod
    def at(cls, url: str, key: str, *, on_lost: Callable[[], None]) -> Self:
        """Return the client for what `workers.engine_url.parse` made of a URL; no key if that is empty."""
        session = aiohttp.ClientSession(
            # As many connections as the gate lets through.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=_trust(url)),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=_GENERATION,
        )
        return cls(session, url=url, on_lost=on_lost)

    async def is_healthy(self) -> bool:
        """Whether it answers, and takes the key."""
        try:
            await self.probe()
        except EngineAway:
            return False
        return True

    async def probe(self) -> None:
        """Ask `/health`, and `/v1/models` for the key's sake; it may lack one of them. Raises EngineAway."""
        if not [path for path in (_HEALTH, _MODELS) if await self._has(path)]:
            raise EngineAway(f"the engine has neither {_HEALTH} nor {_MODELS}: is the URL right?")

    async def check_serves(self, model: str) -> None:
        """Raise EngineAway if it names its models, and `model` is none of them."""
        try:
            async with self._get(_MODELS) as answer:
                names = _names(await answer.read()) if answer.status == HTTPStatus.OK else []
        except CONNECTION_LOST as error:
            raise _away(error) from error
        if names and model not in names:
            raise EngineAway(f"the engine has no model {model!r}, but {', '.join(names)}"[:400])

    async def _has(self, path: str) -> bool:
        """Whether it has the page; raises EngineAway if it answers in another way than that."""
        try:
            async with self._get(path) as answer:
                status = answer.status
        except CONNECTION_LOST as error:
            raise _away(error) from error
        if status in _NO_SUCH_PAGE:
            return False
        if status != HTTPStatus.OK:
            raise EngineAway(_why(path, status))
        return True

    def _get(self, path: str) -> "aiohttp.client._RequestContextManager":
        return self._session.get(f"{self._url}{path}", timeout=PROBE, allow_redirects=False)

    def _lost(self, error: Exception) -> EngineGone:
        self._on_lost()
        return _away(error) if isinstance(error, _NEVER_BEGAN) else super()._lost(error)

    async def _raise_for(self, answer: aiohttp.ClientResponse) -> None:
        body, status = await answer.read(), answer.status
        if _is_the_callers(status):
            raise EngineRefused(status, body)
        if not await self.is_healthy():
            self._on_lost()
            # A server's error may be the work of this very job; a refused key or a redirect is not.
            kind = EngineGone if status >= HTTPStatus.INTERNAL_SERVER_ERROR else EngineAway
            raise kind(_why("a request", status))
        if status in _NOT_NOW:
            raise EngineGone(_why("a request", status))
        if status in _KEY_REFUSED:  # the key is good: what was asked is what it refuses
            raise EngineRefused(status, body)
        raise EngineFault(_why("a request", status))


def _trust(url: str) -> ssl.SSLContext | bool:
    """Return whom to believe: the system's authorities, or those in SSL_CERT_FILE, as they are now."""
    return ssl.create_default_context() if url.startswith("https:") else True


def _is_the_callers(status: int) -> bool:
    is_client_error = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return is_client_error and status not in _KEY_REFUSED | _NOT_NOW


def _away(error: BaseException) -> EngineAway:
    return EngineAway(f"the engine cannot be reached: {error or type(error).__name__}")


def _why(what: str, status: int) -> str:
    if status in _KEY_REFUSED:
        return f"the engine refuses the key with status {status}: SLUICE_ENGINE_KEY must hold one that it takes"
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        return f"the engine redirects {what} with status {status}: give its final address as --engine-url"
    return f"the engine answered {what} with status {status}"


def _names(body: bytes) -> list[str]:
    """Read the ids out of a list of models; none if it is something else."""
    try:
        return [str(model["id"]) for model in json.loads(body)["data"]]
    except (ValueError, KeyError, TypeError):
        return []
