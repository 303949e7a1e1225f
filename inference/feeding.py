"""Brings spilled jobs into their queues as these empty: below the low watermark, and then up to the warning one.

The row decides. Room is reserved first, within the caps and in one script; then the rows move, in one commit; then
they are published. Whoever dies in between leaves a reservation that lapses into a spilled job, or a queued row
that the reconciler publishes: none is lost, and none runs twice.
"""

import itertools
import logging
import math
import time
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from django.db.models import F, Min, QuerySet

from inference import broker, capacity, lifecycle, maintenance, publication, routing, snapshot, watermarks
from inference.admission import engines
from inference.broker.queues import JOBS_PER_SCRIPT
from inference.limits import Limits
from inference.models import Job
from inference.states import JobStatus

logger = logging.getLogger(__name__)

RUN_SECONDS: Final = 2.0
"""A run stops after this, before its lock ends; the next goes on."""

Stats = Mapping[str, broker.QueueStats]


def feed() -> int:
    """Bring in what has room. Returns how many. Raises broker.BrokerAway and django.db.Error: nothing is lost."""
    count, ends_at = 0, time.monotonic() + RUN_SECONDS
    with maintenance.only_one("feed") as is_ours:
        limits = snapshot.limits()
        stats = {each.queue: each for each in broker.get_broker().stats(limits.queues())} if is_ours else {}
        for queue in [queue for queue, each in stats.items() if each.spilled]:
            count += _feed_queue(queue, stats, limits, ends_at)
    if count:
        logger.info("Spilled jobs are in their queues", extra={"action": "fed", "count": count})
    return count


def _feed_queue(queue: str, stats: Stats, limits: Limits, ends_at: float) -> int:
    siblings = [name for name in stats if routing.parse(name).model == routing.parse(queue).model]
    bounds, count = _bounds(queue, siblings, stats, limits), 0
    jobs = _next(queue, bounds, bounds.jobs - stats[queue].jobs) if bounds else []
    for i in range(0, len(jobs), JOBS_PER_SCRIPT):
        part = jobs[i : i + JOBS_PER_SCRIPT]
        taken = broker.get_broker().feed(queue, bounds, siblings, [job.id for job in part]) if bounds else []
        count += _bring_in(part, taken)
        if len(taken) < len(part) or time.monotonic() >= ends_at:
            break
    return count


def _bounds(queue: str, siblings: Sequence[str], stats: Stats, limits: Limits) -> broker.Bounds | None:
    """Return what may wait while the queue is fed; None while it is too full for that."""
    name, own = routing.parse(queue), stats[queue]
    model, tier, caps = limits.models[name.model], limits.tiers[name.tier], limits.queue_caps(queue, name.tier)
    replicas = engines.replicas()
    jobs = capacity.most_jobs(limits, own, replicas)
    whole = capacity.model_bytes(model, sum(each.model == model.name for each in replicas))
    most = round(whole * capacity.share(tier, list(limits.tiers.values()), model.emergency_watermark))
    waiting = sum(stats[each].bytes for each in siblings)
    used = ((own.jobs, jobs), (own.tokens, caps.tokens), (own.bytes, caps.bytes), (waiting, most))
    if watermarks.share(*used) >= watermarks.LOW:
        return None
    return broker.Bounds(math.ceil(jobs * watermarks.WARNING), caps.tokens, caps.bytes, most)


def _next(queue: str, bounds: broker.Bounds, room: int) -> list[Job]:
    """Return the next jobs to come in: by turns of their tenants, of each the oldest first."""
    name = routing.parse(queue)
    spilled = Job.objects.filter(status=JobStatus.SPILLED, model=name.model, tier=name.tier, length=name.length)
    # Of all that is spilled only this is read; of the rest, as much as there is room for.
    firsts = spilled.values_list("tenant").annotate(first=Min("created_at")).order_by("first", "tenant")
    tenants = [tenant for tenant, _ in firsts[: max(0, room)]]
    each = math.ceil(room / len(tenants)) if tenants else 0
    lines = [_line(_fitting(spilled.filter(tenant=tenant), bounds), each) for tenant in tenants]
    return [job for turn in itertools.zip_longest(*lines) for job in turn if job][:room]


def _fitting(spilled: QuerySet[Job], bounds: broker.Bounds) -> QuerySet[Job]:
    """Leave out those that alone are more than may wait: caps were lowered."""
    most_bytes = [most for most in (bounds.bytes, bounds.model_bytes) if most is not None]
    if most_bytes:
        spilled = spilled.filter(request_bytes__lte=min(most_bytes))
    if bounds.tokens is not None:
        spilled = spilled.filter(prompt_tokens__lte=bounds.tokens - F("expected_tokens"))
    return spilled


def _line(jobs: QuerySet[Job], most: int) -> list[Job]:
    rows = jobs.order_by("created_at", "id").select_related("tenant").defer("request", "result")
    return list(rows[:most])


def _bring_in(jobs: Sequence[Job], taken: Sequence[UUID]) -> int:
    """Move the rows of those that have room, and publish them."""
    applied = lifecycle.apply([lifecycle.Feed(job_id) for job_id in taken])
    moved = {answer.job_id for answer in applied if answer.moved}
    entries = [publication.entry_of(job, tenant_weight=job.tenant.weight) for job in jobs if job.id in moved]
    publication.publish(entries)
    # What moved otherwise meanwhile: it was cancelled, or its deadline passed.
    broker.get_broker().unspill(answer.job_id for answer in applied if not answer.moved)
    return len(moved)
