"""An engine that is not ours: any server of OpenAI's protocol at a URL, which others start and stop.

It is asked every few seconds whether it is there, since nothing else would tell. While it is away,
the worker waits.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncGenerator
from typing import Final

from workers import warm_up
from workers.engine import (
    EngineAway,
    EngineCall,
    EngineFault,
    EngineGauges,
    EngineGone,
    EngineRefused,
    EngineSpec,
)
from workers.engine_client import Extras
from workers.remote_client import RemoteClient

logger = logging.getLogger(__name__)

PROBE_SECONDS: Final = 5.0
"""Between two questions whether it is there, while it is."""
RETRY_SECONDS: Final = 1.0
"""After an answer that did not come."""
LOST_ANSWERS: Final = 2
"""So many in a row and it counts as gone: one may be lost on the way."""
_UNKNOWN_FIELD: Final = frozenset({400, 422})
_EXTRAS: Final = (Extras(), Extras(priority=False), Extras(priority=False, request_id=False))
"""Tried in this order at each start; the first that the engine takes holds."""
_A_LOWER_PRIORITY: Final = 1
"""Some engines refuse any but 0, which is their default."""
_QUOTED_BYTES: Final = 300


class ExternalEngine:
    """Implements `workers.engine.Engine` for a URL."""

    def __init__(self, spec: EngineSpec) -> None:
        if not spec.url:
            raise ValueError("an external engine needs a URL")
        self.exited = asyncio.Event()
        self.exited.set()
        self._spec = spec
        self._doubt = asyncio.Event()
        self._client: RemoteClient | None = None
        self._watch: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        """See `Engine.start`."""
        await self.stop()
        client = RemoteClient.at(self._spec.url, self._spec.key, on_lost=self._doubt.set)
        try:
            await client.probe()
            await client.check_serves(self._spec.model.name)
        except BaseException:
            await client.close()
            raise
        self._client = client
        self._doubt.clear()
        self.exited.clear()
        self._watch = asyncio.create_task(self._watch_over(client))

    async def stop(self) -> None:
        """See `Engine.stop`."""
        if self._watch:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
            self._watch = None
        await self._leave()

    async def _watch_over(self, client: RemoteClient) -> None:
        """Return when it is gone; however this ends, nobody takes it for there any longer."""
        lost = 0
        try:
            while lost < LOST_ANSWERS:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._doubt.wait(), RETRY_SECONDS if lost else PROBE_SECONDS)
                self._doubt.clear()
                lost = 0 if await client.is_healthy() else lost + 1
            logger.warning("the external engine is away", extra={"action": "engine_away"})
        finally:
            await self._leave()

    async def _leave(self) -> None:
        client, self._client = self._client, None
        self.exited.set()
        if client:
            await client.close()

    # Work

    async def generate(self, call: EngineCall) -> bytes:
        """See `Engine.generate`."""
        return await self._connected().generate(call)

    def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        """See `Engine.stream`."""
        return self._connected().stream(call)

    async def gauges(self) -> EngineGauges:
        """See `Engine.gauges`. All are 0 for an engine without vLLM's metrics."""
        client = self._connected()
        await client.probe()
        return await client.gauges()

    async def warm_up(self) -> None:
        """See `Engine.warm_up`; finds out as well what the engine takes beside the caller's fields."""
        try:
            await self._warm_up(self._connected())
        except EngineAway:
            raise
        except EngineGone as error:
            raise EngineAway(f"warm-up: {error}") from error

    async def _warm_up(self, client: RemoteClient) -> None:
        question = dataclasses.replace(warm_up.question(self._spec.model), priority=_A_LOWER_PRIORITY)
        for extras in _EXTRAS:
            client.extras = extras
            try:
                reply = await client.generate(question)
            except EngineRefused as error:
                refused = error
                if error.status not in _UNKNOWN_FIELD:
                    break
            else:
                self._note(extras)
                warm_up.check(self._spec.model, reply)
                return
        raise EngineFault(f"warm-up: {refused}: {refused.body[:_QUOTED_BYTES]!r}")

    def _note(self, extras: Extras) -> None:
        if extras != _EXTRAS[0]:
            logger.warning("the external engine goes without: %s", extras, extra={"action": "engine_extras"})

    def _connected(self) -> RemoteClient:
        if self._client is None:
            raise EngineAway("the external engine is away")
        return self._client
