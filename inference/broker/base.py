"""What all verbs stand on: a client and a prefix."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import redis

from inference.broker import scripts


class Verbs:
    """One Redis client and the prefix of all keys. Thread-safe, since redis-py's pool is."""

    def __init__(self, client: redis.Redis, *, prefix: str) -> None:
        self.client = client
        self.prefix = prefix

    def ping(self) -> None:
        """Return if the server answers. Raises BrokerAway."""
        self.client.ping()

    def now(self) -> datetime:
        """Return the server's clock. Raises BrokerAway."""
        seconds, microseconds = self.client.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)

    def _call(self, name: str, *args: scripts.Argument) -> Any:
        return scripts.call(self.client, name, self.prefix, *args)


def target_ms(seconds: float | None) -> int:
    """Return a target wait as scripts have it: below 0 where there is none."""
    return -1 if seconds is None else round(seconds * 1000)


def raw(job_ids: Iterable[UUID]) -> list[bytes]:
    """Ids as Redis holds them: 16 bytes each."""
    return [job_id.bytes for job_id in job_ids]
