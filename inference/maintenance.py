"""Periodic work on what time ends: leases, start deadlines, silent workers. Each is safe to run twice at once."""

import functools
import json
import logging
import operator
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from inference import broker, budgets, deadlines, fleet, lifecycle, retries, routing, snapshot
from inference.models import Job, ServedModel
from inference.states import WAITING, JobStatus, ReleaseReason

logger = logging.getLogger(__name__)

CHUNK: Final = 500
"""Rows in one statement and one transaction."""
CHUNKS_PER_RUN: Final = 20
LOCK_SECONDS: Final = 3.0
"""Longest that a run which died keeps others out. One that takes longer may be joined by another: each change is
conditional on the row and the claim."""


def reap() -> int:
    """Bring jobs on whose lease ran out: the row first, then the queue. Returns how many leases were due.

    Any process may; of several only one does. Raises broker.BrokerAway and django.db.Error: the next run goes on.
    """
    count = 0
    with only_one("reap") as is_ours:
        for _ in range(CHUNKS_PER_RUN if is_ours else 0):
            due = _due()
            _reap(due)
            count += len(due)
            if len(due) < CHUNK:
                break
    return count


def expire(now: datetime) -> int:
    """End waiting jobs whose hold or start deadline has passed, and tell those who wait. Returns how many.

    A deadline's clock runs only while a worker of the model is ready and the queue is not paused
    (`inference.deadlines`); a hold's always, for somebody's connection is held.
    """
    count = 0
    with only_one("expire") as is_ours:
        count += _expire(_past_hold(now), now) if is_ours else 0
        for model in ServedModel.objects.values_list("name", flat=True) if is_ours else []:
            for jobs, since in _clocked(model, now):
                count += _expire(_overdue(jobs, since, now), now)
    return count


def prune_workers(now: datetime) -> int:
    """Remove the rows of workers that were silent for long. Returns how many."""
    names = fleet.prune(now)
    for name in names:
        logger.warning("Worker gone, its row is removed", extra={"action": "worker_pruned", "worker": name})
    return len(names)


def count_spending(now: datetime) -> int:
    """Hold what budgets count against the database. Returns how many budgets there are."""
    found = list(snapshot.limits().budgets.values())
    with only_one("spending") as is_ours:
        if is_ours and found:
            budgets.refresh(found, now)
    return len(found)


def settle(applied: Sequence[lifecycle.Applied], tokens: Sequence[broker.Token]) -> None:
    """Tell the broker what became of the claims that were taken from their holders."""
    for answer, token in zip(applied, tokens, strict=True):
        try:
            _settle(answer, token)
        except Exception as error:
            if broker.may_heal(error):
                raise
            # This very entry breaks the script, now and at the next run: it must not keep the others from theirs.
            extra = {"action": "settle_failed", "job_id": token.job_id, "claim_id": token.claim_id}
            logger.exception("A lease that ran out could not be settled", extra=extra)


def _settle(answer: lifecycle.Applied, token: broker.Token) -> None:
    if answer.status is JobStatus.QUEUED:  # one that had not begun (nothing moved) has nothing to wait for
        backoff, alone = retries.FAULT_BACKOFF if answer.moved else None, retries.runs_alone(answer.engine_crashes)
        broker.get_broker().release(token, backoff=backoff, alone=alone)
    else:  # it ended, or runs under another claim: this lease is a leftover
        broker.get_broker().ack(token, status=str(answer.status or JobStatus.CANCELLED))


@contextmanager
def only_one(name: str) -> Iterator[bool]:
    """Hold the periodic task's lock: False if another process is at it."""
    with broker.get_broker().lock(name, seconds=LOCK_SECONDS) as is_ours:
        yield is_ours


def _due() -> list[broker.DueLease]:
    return broker.get_broker().due(lease_seconds=settings.LEASE_SECONDS, limit=CHUNK)


def _reap(due: Sequence[broker.DueLease]) -> None:
    if not due:
        return
    logger.warning("Leases ran out", extra={"action": "reaped", "count": len(due)})
    for lease in due:
        if lease.is_task:
            _return_task(lease)
    tokens = [lease.token for lease in due if not lease.is_task]
    settle(lifecycle.apply([lifecycle.Release(t, ReleaseReason.LEASE_EXPIRED) for t in tokens]), tokens)


def _return_task(lease: broker.DueLease) -> None:
    """Give a Celery task another try, unless it may be what kills its workers."""
    deaths = lease.failures + 1
    if deaths < retries.MAX_TASK_DEATHS:
        broker.get_broker().release(lease.token, backoff=retries.FAULT_BACKOFF)
        return
    extra = {"action": "task_dropped", "task": _task_name(lease.body), "queue": lease.queue, "count": deaths}
    logger.error("A task was dropped, its worker died under it each time", extra=extra)
    broker.get_broker().ack(lease.token, status=str(JobStatus.FAILED))


def _task_name(body: bytes) -> str:
    """Return what a message asks for; never what it hands over."""
    try:
        return str(json.loads(body)["headers"]["task"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _clocked(model: str, now: datetime) -> Iterator[tuple[QuerySet[Job], datetime]]:
    """Return the model's waiting jobs by the clocks that run, each with since when."""
    clocks = deadlines.clocks(model, now=now)
    for status in sorted(WAITING):  # one at a time: SQLite uses a partial index only for its very condition
        jobs = Job.objects.filter(status=status, model=model, start_deadline_at__lte=now)
        if clocks.ready_since is not None:
            yield jobs.exclude(_in(clocks.apart)) if clocks.apart else jobs, clocks.ready_since
        for queue, since in clocks.apart.items():
            if since is not None:
                yield jobs.filter(_in([queue])), since


def _in(queues: Iterable[str]) -> Q:
    names = map(routing.parse, queues)
    return functools.reduce(operator.or_, (Q(tier=name.tier, length=name.length) for name in names))


def _overdue(jobs: QuerySet[Job], since: datetime, now: datetime) -> QuerySet[Job]:
    """Those that waited, while the clock ran, for as long as they may: `transitions.is_overdue` in SQL."""
    in_time = F("queued_at") + (now - since)
    return jobs.filter(start_deadline_at__lte=in_time).order_by("start_deadline_at")


def _past_hold(now: datetime) -> QuerySet[Job]:
    return Job.objects.filter(status=JobStatus.QUEUED, hold_ends_at__lte=now).order_by("hold_ends_at")


def _expire(overdue: QuerySet[Job], now: datetime) -> int:
    count, young = 0, set[uuid.UUID]()
    for _ in range(CHUNKS_PER_RUN):
        ends_at = Coalesce("hold_ends_at", "start_deadline_at")
        rows = overdue.exclude(id__in=young).values_list("id", "queued_at", ends_at)[:CHUNK]
        allowed = {job_id: until - queued_at for job_id, queued_at, until in rows}
        young |= _young(allowed)
        count += _end([job_id for job_id in allowed if job_id not in young], now)
        if len(allowed) < CHUNK:
            break
    return count


def _young(allowed: Mapping[uuid.UUID, timedelta]) -> set[uuid.UUID]:
    """Those that waited for less than they may by the broker's clock: of two that say otherwise one is wrong."""
    waits = broker.get_broker().waits(allowed)
    return {job_id for job_id, waited in waits.items() if waited < allowed[job_id]}


def _end(ids: Sequence[uuid.UUID], now: datetime) -> int:
    applied = lifecycle.apply([lifecycle.Expire(job_id) for job_id in ids], now=now)
    for answer in applied:
        if answer.moved:
            broker.get_broker().cancel(answer.job_id, status=str(JobStatus.EXPIRED), target_seconds=0)
    return sum(answer.moved for answer in applied)
