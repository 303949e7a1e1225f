"""Jobs for the pure order, and short ways to ask it."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from inference.guards import Credit, TierTerms
from inference.scheduling import Ask, FairQueue, Taken, Waiting

WEIGHTS = {"realtime": 400.0, "standard": 100.0, "bulk": 1.0}
ALL = frozenset({"short", "medium", "long"})
_numbers = count(1)


def make_job(**overrides: object) -> Waiting:
    """A short standard job of a second, with an id of its own."""
    fields: dict[str, object] = {
        "job_id": next(_numbers).to_bytes(16, "big"),
        "tier": "standard",
        "tenant": "ann",
        "length": "short",
        "arrival_ms": 0.0,
        "estimate": 1.0,
        "kv_tokens": 100,
    }
    return Waiting(**(fields | overrides))  # type: ignore[arg-type]


def ask(queue: FairQueue, *tiers: str, lengths: Iterable[str] = ALL, **overrides: Any) -> Taken:
    """Claim as a worker does that serves these tiers and lengths, with room for all."""
    served = tiers or tuple(WEIGHTS)
    fields: dict[str, Any] = {
        "queues": frozenset((tier, length) for tier in served for length in lengths),
        "credit": Credit(1000, 10**9),
        "limit": 1,
        "tiers": {tier: TierTerms(weight) for tier, weight in WEIGHTS.items()},
    }
    return queue.claim(Ask(**(fields | overrides)))


def take(queue: FairQueue, jobs: int = 1, *tiers: str, kv_tokens: int = 10**9) -> list[bytes]:
    """Claim so many jobs; return their ids in order."""
    return ask(queue, *tiers, limit=jobs, credit=Credit(jobs, kv_tokens)).jobs


def publish(queue: FairQueue, jobs: Iterable[Waiting]) -> dict[bytes, Waiting]:
    """Queue the jobs; return them by id."""
    published = {job.job_id: job for job in jobs}
    assert all(queue.publish(job) for job in published.values())
    return published
