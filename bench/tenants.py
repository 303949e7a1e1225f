"""Loads of several tenants, each with a key of its own, and what their jobs waited for and got."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import statistics
from bench.open_load import Request
from bench.stack import Job, Stack


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs of one tenant that come openly."""

    key: str
    jobs_per_second: float
    begin: float
    """Seconds from the load's start."""
    end: float
    prompt_tokens: int
    output_tokens: int
    """The mean, if they are drawn."""


SHORTEST: Final = 8
"""Output tokens of a drawn job."""


def keys(running: Stack, weights: Mapping[str, float]) -> dict[str, str]:
    """Make tenants with their weights; returns their keys by name."""
    made: dict[str, str] = running.rows("keys", json.dumps(weights))
    return made


def regular(stream: Stream) -> Iterator[Request]:
    """Yield its jobs at even distances, all alike."""
    at = stream.begin
    while at < stream.end:
        yield _request(stream, at, stream.output_tokens)
        at += 1 / stream.jobs_per_second


def drawn(stream: Stream, draw: random.Random) -> Iterator[Request]:
    """Yield its jobs whenever they come, with outputs of an exponential distribution."""
    at = stream.begin
    while (at := at + draw.expovariate(stream.jobs_per_second)) < stream.end:
        yield _request(stream, at, max(SHORTEST, round(draw.expovariate(1 / stream.output_tokens))))


def drawn_equal(stream: Stream, draw: random.Random) -> Iterator[Request]:
    """Yield its jobs whenever they come, all alike."""
    at = stream.begin
    while (at := at + draw.expovariate(stream.jobs_per_second)) < stream.end:
        yield _request(stream, at, stream.output_tokens)


def queue_p99(jobs: Sequence[Job], tenants: Sequence[str]) -> float:
    """Return the p99 queue time of the tenants' jobs, in seconds."""
    return statistics.percentile([job.queue_seconds for job in jobs if job.tenant in tenants], 0.99)


def served_tokens(jobs: Sequence[Job], tenant: str, window: tuple[float, float]) -> int:
    """Return prompt and output tokens of the tenant's jobs that ended in the window, by the wall clock."""
    begin, end = window
    ended = [j for j in jobs if j.tenant == tenant and j.finished_at and begin <= j.finished_at < end]
    return sum(job.prompt_tokens + (job.output_tokens or 0) for job in ended)


def _request(stream: Stream, at: float, output_tokens: int) -> Request:
    return Request(
        at=at, prompt_tokens=stream.prompt_tokens, output_tokens=output_tokens, waits=False, key=stream.key
    )
