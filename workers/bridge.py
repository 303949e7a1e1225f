"""Brings what other threads answer to the event loop, many answers at a time."""

import asyncio
import collections
from typing import Any, TypeVar

from inference.answer import Answer

T = TypeVar("T")


class Bridge:
    """Awaits what other threads answer. Make it, and use `wait`, on the event loop.

    The loop is woken once for all that is there when it comes to look, and not once for each.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: collections.deque[tuple[asyncio.Future[Any], Answer[Any]]] = collections.deque()
        self._is_waking = False

    async def wait(self, answer: Answer[T]) -> T:
        """Return the result or raise the error. Cancelled, it lets go; the answer goes its way."""
        if answer.is_there:
            return answer.result()
        arrived: asyncio.Future[T] = self._loop.create_future()
        answer.then(lambda came: self._bring(arrived, came))
        return await arrived

    def _bring(self, arrived: "asyncio.Future[Any]", answer: Answer[Any]) -> None:
        self._came.append((arrived, answer))
        # Appended before it is asked: `_deliver` clears the mark before it looks, so nothing is left lying.
        if not self._is_waking and not self._loop.is_closed():
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_waking = False  # first: what comes from here on wakes anew
        while self._came:
            arrived, answer = self._came.popleft()
            if not arrived.done():
                _copy(answer, arrived)


def _copy(answer: Answer[Any], arrived: "asyncio.Future[Any]") -> None:
    if (error := answer.error()) is not None:
        arrived.set_exception(error)
    else:
        arrived.set_result(answer.result())
