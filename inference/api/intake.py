"""How many bytes of request bodies one web process holds at once, from their first byte until they are on record.

It fails closed: a body that finds no room within `WAIT_SECONDS` is answered 503 with `Retry-After`, unread.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator
from typing import Final

from inference import errors

MAX_BYTES: Final = 32 * 1024 * 1024
"""Of all bodies together. A body takes several times its size while it is parsed and counted."""
SMALL_BYTES: Final = 64 * 1024
"""Bodies up to this size are not counted, so that no short prompt waits behind long ones. The server has as much
of each connection in its buffer anyway."""
WAIT_SECONDS: Final = 20.0


class Intake:
    """Room for bodies, given in the order of asking. Belongs to one event loop."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self.free = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        """Wait for room. Raises errors.Unavailable if there is none in time."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._grant()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except BaseException as error:
            self._leave(size, turn)
            if isinstance(error, TimeoutError):
                raise errors.Unavailable("Too many large requests at once.", code="busy") from None
            raise

    def give(self, size: int) -> None:
        """Give room back."""
        self.free += size
        self._grant()

    def _leave(self, size: int, turn: "asyncio.Future[None]") -> None:
        """Whether or not its turn came in the same moment, it holds nothing and holds up nobody."""
        self.give(0 if turn.cancelled() else size)

    def _grant(self) -> None:
        while self._waiting and (self._waiting[0][1].cancelled() or self._waiting[0][0] <= self.free):
            size, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.free -= size
                turn.set_result(None)


class Held:
    """What one request holds of the room."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._bytes = 0

    async def take(self, size: int) -> None:
        """Wait until there is room for a body of `size` bytes, once: a small one, or a second call, takes none.

        Raises errors.Unavailable.
        """
        if size > SMALL_BYTES and not self._bytes:
            await self._intake.take(size)
            self._bytes = size

    def give(self) -> None:
        """Give back what is held: the body is on record, or gone."""
        size, self._bytes = self._bytes, 0
        self._intake.give(size)


@contextlib.contextmanager
def held(intake: Intake) -> Iterator[Held]:
    """Hold nothing at first, and nothing at the end."""
    holds = Held(intake)
    try:
        yield holds
    finally:
        holds.give()
