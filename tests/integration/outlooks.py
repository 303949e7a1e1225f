"""Jobs that wait and run, and workers that report, for the tests of what is told of waits."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from inference import broker as broker_module
from inference import fleet, selectors
from inference.broker import Broker, ClaimRequest, Credit, TierTerms
from inference.models import Job
from inference.rows import JobWaiting
from tests import factories

QUEUES = tuple(
    f"{factories.MODEL}.{tier}.{length}"
    for tier in ("realtime", "standard", "bulk")
    for length in ("short", "long")
)
QUEUE = f"{factories.MODEL}.standard.short"


def publish(count: int = 1, **fields: Any) -> list[Job]:
    jobs = [factories.make_job(**fields) for _ in range(count)]
    factories.publish(*jobs)
    return jobs


def claim(broker: Broker, count: int) -> list[broker_module.Claimed]:
    tiers = {"realtime": TierTerms(400.0), "standard": TierTerms(100.0), "bulk": TierTerms(1.0)}
    request = ClaimRequest(QUEUES, Credit(count, 10**6), limit=count, worker="w", lease_seconds=60, tiers=tiers)
    return broker.claim(request).jobs


def run(broker: Broker, count: int, **fields: Any) -> None:
    """Have jobs in flight."""
    publish(count, created_at=timezone.now() - timedelta(seconds=60), **fields)
    assert len(claim(broker, count)) == count


def why(job: Job) -> JobWaiting:
    return selectors.waiting_of([job])[job.pk]


def report(**overrides: Any) -> None:
    fleet.report(factories.make_report(**{"slots": 8, "kv_capacity_tokens": 1000} | overrides))
