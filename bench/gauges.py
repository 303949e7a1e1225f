"""What an engine says of itself on its own socket, past everything of ours."""

import re
from dataclasses import dataclass
from typing import Final

import httpx

from bench.load import Target

_QUEUE_TIME: Final = re.compile(r"^vllm:request_queue_time_seconds_(count|sum)(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class QueueTime:
    """Of all requests that an engine began so far."""

    requests: float
    seconds: float

    def mean_since(self, before: "QueueTime") -> float:
        """Return the mean wait in the engine's own queue since then; 0 if it began nothing."""
        count = self.requests - before.requests
        return (self.seconds - before.seconds) / count if count else 0.0


def queue_time(engine: Target) -> QueueTime:
    """Ask the engine at its socket."""
    transport = httpx.HTTPTransport(uds=engine.socket)
    with httpx.Client(transport=transport, base_url=engine.base_url, timeout=30) as client:
        page = client.get("/metrics").raise_for_status().text
    found = {kind: float(value) for kind, value in _QUEUE_TIME.findall(page)}
    return QueueTime(found["count"], found["sum"]) if found else QueueTime(0, 0)
