"""Server-sent events: responses that pass bytes on as they come, and what is said while nothing comes."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from typing import Final, TypeVar

from django.http import StreamingHttpResponse

T = TypeVar("T")

KEEP_ALIVE_SECONDS: Final = 15.0
"""Proxies cut connections that are silent for a minute, some for half of one."""

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment: clients skip it."""

HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Stream(StreamingHttpResponse):
    """What one asynchronous generator says, which is closed when the client leaves."""

    def __init__(self, content: AsyncGenerator[bytes, None], *, content_type: str) -> None:
        super().__init__(content, content_type=content_type, headers=HEADERS)
        self._content = content

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        """Return the generator itself: Django's wrappers around it would not close it in time."""
        return self._content


class EventStream(Stream):
    """An event stream."""

    def __init__(self, content: AsyncGenerator[bytes, None]) -> None:
        super().__init__(content, content_type="text/event-stream")


async def within_keep_alive(event: Awaitable[T]) -> T | None:
    """Return what `event` gives, or None if it takes longer than a client should hear nothing."""
    try:
        async with asyncio.timeout(KEEP_ALIVE_SECONDS):
            return await event
    except TimeoutError:
        return None
