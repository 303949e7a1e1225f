"""The backlog as Flower shows it, read from its JSON with its login."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from examples.demo.stack import Access

POLL_SECONDS: Final = 0.5


@dataclass(slots=True)
class Backlog:
    """What Flower said last, and at the moment when most jobs waited."""

    now: list[dict[str, Any]] = field(default_factory=list)
    peak: list[dict[str, Any]] = field(default_factory=list)
    longest_seconds: dict[str, float] = field(default_factory=dict)
    """By queue: the most backlog seconds that Flower ever said."""

    def take(self, queues: list[dict[str, Any]]) -> None:
        """Note one answer of Flower's."""
        self.now = queues
        for queue in queues:
            name, seconds = queue["queue"], queue["backlog_seconds"]
            self.longest_seconds[name] = max(seconds, self.longest_seconds.get(name, 0.0))
        if waiting(queues) > waiting(self.peak):
            self.peak = queues


def waiting(queues: list[dict[str, Any]]) -> int:
    """Jobs that wait in all these queues."""
    return sum(queue["jobs"] for queue in queues)


async def watch(access: Access, backlog: Backlog) -> None:
    """Read Flower's numbers until cancelled; an answer that fails to come is left out, being only for show."""
    login = (access.flower_user, access.flower_password)
    async with httpx.AsyncClient(base_url=access.flower_url, auth=login, trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                answer = await client.get("/api/sluice/queues")
                backlog.take(answer.raise_for_status().json()["queues"])
            await asyncio.sleep(POLL_SECONDS)
