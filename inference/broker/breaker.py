"""A circuit breaker: a page waits for a server that hangs once, not once for each of its questions.

Such a server takes connections and answers nothing, so every command is waited for until its timeout.
"""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import redis
from redis.client import Pipeline as PlainPipeline
from redis.exceptions import TimeoutError as TookTooLong

OPEN_SECONDS: Final = 2.0
"""So long after a timeout nothing is sent: longer than the rest of a page takes, and no longer, since by then the
server may be back."""

Answer = TypeVar("Answer")


class Breaker:
    """Opens for a moment when a call was not answered in time. Thread-safe."""

    def __init__(self) -> None:
        self._open_until = self._answered_at = float("-inf")
        """By the monotonic clock."""

    def call(self, send: Callable[[], Answer]) -> Answer:
        """Return what `send` does. Raises TookTooLong at once while it is open, and what `send` raises."""
        began = time.monotonic()
        if began < self._open_until:
            raise TookTooLong("Redis did not answer a moment ago")
        try:
            answer = send()
        except TookTooLong:
            if began >= self._answered_at:  # else others were answered meanwhile: it was the connection
                self._open_until = time.monotonic() + OPEN_SECONDS
            raise
        self._answered_at = time.monotonic()
        return answer


class Client(redis.Redis):
    """A client with a breaker for all its commands, of all threads."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._breaker = Breaker()
        super().__init__(*args, **kwargs)

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and return its answer. Raises RedisError."""
        send: Any = super().execute_command
        return self._breaker.call(lambda: send(*args, **options))

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> "Pipeline":  # noqa: FBT001, FBT002 - redis-py's
        """Return a pipeline behind the same breaker."""
        pipe = Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)
        pipe.breaker = self._breaker
        return pipe


class Pipeline(PlainPipeline):
    """Several commands sent together."""

    breaker: Breaker

    def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002 - redis-py's
        """Send them and return their answers. Raises RedisError."""
        send = super().execute
        return self.breaker.call(lambda: send(raise_on_error))
