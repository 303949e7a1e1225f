"""From a job's row to its entry in the queue."""

import logging
from collections.abc import Sequence

from inference import broker, retries
from inference.models import Job

logger = logging.getLogger(__name__)


def entry_of(job: Job, *, tenant_weight: float, is_retry: bool = False) -> broker.Entry:
    """Return the entry of a row that was published before, or should have been: with its first arrival."""
    return broker.Entry(
        job_id=job.id,
        queue=job.queue,
        tenant=job.tenant_id,
        prompt_tokens=job.prompt_tokens,
        expected_tokens=job.expected_tokens,
        estimate=job.estimate_seconds,
        arrival_ms=round(job.created_at.timestamp() * 1000),
        streamed=job.streamed,
        tenant_weight=tenant_weight,
        request_bytes=job.request_bytes,
        alone=retries.runs_alone(job.engine_crashes),
        counts=not is_retry and job.attempts == 0,
    )


def publish(entries: Sequence[broker.Entry]) -> None:
    """Queue committed rows. Without Redis they stay accepted: the reconciler publishes them when it is back."""
    try:
        broker.get_broker().publish(entries)
    except broker.BrokerAway as error:
        logger.warning(
            "Jobs not published, the reconciler will: %s",
            error,
            extra={"action": "publish_deferred", "count": len(entries)},
        )


def announce_weight(tenant: str, weight: float) -> None:
    """Let claims use a tenant's new weight at once. Without Redis, its next job brings it."""
    try:
        broker.get_broker().set_tenant_weight(tenant, weight)
    except broker.BrokerAway:
        logger.warning("Weight not announced, the next job brings it", extra={"action": "weight_deferred"})
