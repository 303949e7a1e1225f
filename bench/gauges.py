"""What an engine says of itself on its own socket, past everything of ours."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import httpx

from bench.load import Target

_QUEUE_TIME: Final = re.compile(r"^vllm:request_queue_time_seconds_(count|sum)(?:\{.*\})? (\S+)$", re.MULTILINE)
_BUCKET: Final = re.compile(
    r'^vllm:request_queue_time_seconds_bucket\{.*le="([^"]+)".*\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class QueueTime:
    """Of all requests that an engine began so far."""

    requests: float
    seconds: float
    within: Mapping[float, float] = field(default_factory=dict)
    """How many waited at most so many seconds, by the bounds of the engine's histogram."""

    def mean_since(self, before: "QueueTime") -> float:
        """Return the mean wait in the engine's own queue since then; 0 if it began nothing."""
        count = self.requests - before.requests
        return (self.seconds - before.seconds) / count if count else 0.0

    def within_since(self, before: "QueueTime", seconds: float) -> float:
        """Return how many since then began after at most so long. Raises KeyError for what is no bound."""
        return self.within[seconds] - before.within.get(seconds, 0.0)


def queue_time(engine: Target) -> QueueTime:
    """Ask the engine at its socket."""
    transport = httpx.HTTPTransport(uds=engine.socket)
    with httpx.Client(transport=transport, base_url=engine.base_url, timeout=30) as client:
        return parse(client.get("/metrics").raise_for_status().text)


def parse(page: str) -> QueueTime:
    """Read the engine's page; all 0 before it began anything."""
    found = {kind: float(value) for kind, value in _QUEUE_TIME.findall(page)}
    within = {float(bound): float(count) for bound, count in _BUCKET.findall(page)}
    return QueueTime(found["count"], found["sum"], within) if found else QueueTime(0, 0)
