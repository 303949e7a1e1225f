"""Brings what other threads answer to the event loop, many answers at a time."""

import asyncio
import collections
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Bridge:
    """Awaits futures of other threads. Make it, and use `wait`, on the event loop.

    `asyncio.wrap_future` would wake the loop once for each. Here the loop is woken once for all that ended before
    it comes to look.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: collections.deque[tuple[asyncio.Future[Any], Future[Any]]] = collections.deque()
        self._is_waking = False

    async def wait(self, future: "Future[T]") -> T:
        """Return or raise what the future does. Cancelled, it lets go; the future goes its way."""
        arrived: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda ended: self._bring(arrived, ended))
        return await arrived

    def _bring(self, arrived: "asyncio.Future[Any]", ended: "Future[Any]") -> None:
        self._ended.append((arrived, ended))
        # Appended before it is asked: `_deliver` clears the mark before it looks, so nothing is left lying.
        if not self._is_waking and not self._loop.is_closed():
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_waking = False  # first: what ends from here on wakes anew
        while self._ended:
            arrived, ended = self._ended.popleft()
            if not arrived.done():
                _copy(ended, arrived)


def _copy(ended: "Future[Any]", arrived: "asyncio.Future[Any]") -> None:
    if ended.cancelled():
        arrived.cancel()
    elif (error := ended.exception()) is not None:
        arrived.set_exception(error)
    else:
        arrived.set_result(ended.result())
