"""Another tier for a job that waits: its row and its place in the queues, together."""

import functools
import uuid
from datetime import timedelta

from django.db import transaction

from inference import broker, errors, lifecycle, publication, routing, selectors, snapshot
from inference.admission import entrance
from inference.limits import Limits
from inference.models import Job
from inference.routing import QueueName


def change_tier(*, job_id: uuid.UUID, tier: str) -> Job:
    """Move a queued job to another tier and return it. It keeps its arrival, and with it its place by age.

    Rates and caps of its tenant were asked when it was taken, and are not again; the jobs cap of the new queue is,
    in the script that moves it (fails closed). Raises errors.NotFound, errors.InvalidRequest unless it waits and
    the tier is another one, errors.Rejected where the queue is full, errors.Unavailable where it drains and
    without Redis.
    """
    limits, job = snapshot.limits(), selectors.job_for(None, job_id)
    if tier not in limits.tiers or tier == job.tier_id:
        raise errors.InvalidRequest(f"job {job_id} cannot move from tier {job.tier_id} to {tier}", param="tier")
    queue = str(QueueName(job.model_id, tier, job.length_id))
    if limits.of_queue(queue).is_draining:
        raise entrance.draining(queue)
    with transaction.atomic():
        _change_row(job, tier, limits)
        _move(job, queue, limits.queue_caps(queue, tier).jobs)
    return selectors.job_for(None, job_id)


def _change_row(job: Job, tier: str, limits: Limits) -> None:
    allowed = timedelta(seconds=limits.tiers[tier].start_deadline_seconds)
    detail = f"from tier {job.tier_id} to {tier}, by an admin"
    if not lifecycle.change_tier(job.id, tier, allowed=allowed, detail=detail):
        raise _not_waiting(job.id)


def _move(job: Job, queue: str, cap: int) -> None:
    """Move the entry while the row is locked: what refuses here leaves the row as it was."""
    try:
        where = broker.get_broker().move(job.id, queue, cap=cap)
    except broker.BrokerAway as error:
        raise errors.Unavailable("The queue cannot be reached; nothing was moved. Try again.") from error
    match where:
        case "leased":
            raise _not_waiting(job.id)
        case "full":
            raise errors.Rejected(f"queue {queue} takes at most {cap} waiting jobs; it is full")
        case "absent":  # on its way from its row to its queue, or Redis was wiped
            job.tier_id = routing.parse(queue).tier
            entry = publication.entry_of(job, tenant_weight=job.tenant.weight)
            transaction.on_commit(functools.partial(publication.publish, [entry]))


def _not_waiting(job_id: uuid.UUID) -> errors.InvalidRequest:
    message = f"job {job_id} does not wait any more; only queued jobs change their tier"
    return errors.InvalidRequest(message, code="not_queued", status=409)
