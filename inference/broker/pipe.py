"""One connection to Redis for all callers of an event loop: commands go out at once, answers come in their order.

redis-py's client takes a connection from a pool for each command, looks at its health, sets timers, and starts a
task to send: three times the work, on the way of every token. Its connections serve here as well: they know
addresses, TLS, logins and the protocol.
"""

import asyncio
import collections
import math
from typing import Any, Final

import redis.asyncio
from redis.exceptions import ConnectionError as ConnectionLost
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as TookTooLong

LOST: Final = "the connection to Redis was lost"


class Pipe:
    """Sends commands on one connection, opened on first use and after a loss. Belongs to its event loop."""

    def __init__(self, pool: redis.asyncio.ConnectionPool) -> None:
        """`pool` says how to connect; its socket timeout bounds the wait for each answer."""
        self._pool = pool
        self._seconds: float | None = pool.connection_kwargs.get("socket_timeout")
        self._line: _Line | None = None
        self._opening: asyncio.Task[_Line] | None = None

    async def call(self, *command: Any) -> Any:
        """Send a command and return its answer as it comes: numbers, bytes, lists of them.

        Raises RedisError. Unless it is a ResponseError, the command may have been done all the same.
        """
        line = self._line
        if line is None or not line.is_open:
            line = await self._open()
        answer = await line.send(command)
        try:
            async with asyncio.timeout(self._seconds):
                return await answer
        except TimeoutError:
            await line.close()  # an answer may still come: nobody must take it for another's
            raise TookTooLong("Redis did not answer in time") from None

    async def close(self) -> None:
        """Close the connection. Who still waits gets an error."""
        if self._line is not None:
            await self._line.close()

    async def _open(self) -> "_Line":
        """Return a new connection, the same to all who need one; so is the failure."""
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._connect())
            self._opening.add_done_callback(_note)
        return await asyncio.shield(self._opening)

    async def _connect(self) -> "_Line":
        # Without a socket timeout of its own: redis-py would start a task for each command that it sends.
        connection: Any = self._pool.connection_class(**{**self._pool.connection_kwargs, "socket_timeout": None})
        try:
            async with asyncio.timeout(self._seconds):
                await connection.connect()
        except TimeoutError:
            await connection.disconnect(nowait=True)
            raise TookTooLong("Redis could not be reached in time") from None
        self._line = _Line(connection)
        return self._line


class _Line:
    """A connection for as long as it lasts."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._waiting: collections.deque[asyncio.Future[Any]] = collections.deque()
        self._reading = asyncio.create_task(self._read())

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return not self._reading.done() and bool(self._connection.is_connected)

    async def send(self, command: tuple[Any, ...]) -> "asyncio.Future[Any]":
        """Send a command; the future becomes its answer. Raises RedisError."""
        if not self.is_open:  # redis-py would connect anew, and mix up whose answer is whose
            raise ConnectionLost(LOST)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)  # nothing is awaited between this and the bytes: answers come in this order
        try:
            packed = self._connection.pack_command(*command)
            await self._connection.send_packed_command(packed, check_health=False)
        except BaseException:
            answer.cancel()
            raise
        return answer

    async def close(self) -> None:
        """Close it; who waits gets an error."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        await self._connection.disconnect(nowait=True)

    async def _read(self) -> None:
        try:
            while True:
                self._answer(await self._next())
        except (RedisError, OSError):
            await self._connection.disconnect(nowait=True)
        finally:
            for answer in self._waiting:
                if not answer.done():
                    answer.set_exception(ConnectionLost(LOST))

    async def _next(self) -> Any:
        try:
            return await self._connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError as refused:
            return refused

    def _answer(self, reply: Any) -> None:
        answer = self._waiting.popleft()
        if answer.done():  # its caller left
            return
        if isinstance(reply, ResponseError):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)


def _note(opening: "asyncio.Task[_Line]") -> None:
    """Take note of an error that everybody may have left alone, lest asyncio does."""
    if not opening.cancelled():
        opening.exception()
