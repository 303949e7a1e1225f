"""What pages, API, metrics and Flower show: each number is computed here, once."""

import functools
import operator
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Literal

from django.db.models import Count, Q, QuerySet

from inference import (
    broker,
    capacity,
    clock,
    errors,
    estimates,
    fleet,
    objectives,
    routing,
    snapshot,
    waiting,
    watermarks,
)
from inference.limits import QueueCaps
from inference.models import Job, Worker
from inference.objectives import Starts
from inference.outlook import Outlook, QueueOutlook
from inference.rows import JobCounts, JobWaiting, QueueRow, RatesRow, Totals, WorkerRow
from inference.states import WAITING, JobStatus, WorkerState
from inference.watermarks import Watermark

NO_JOBS: Final = JobCounts(queued=0, unfinished=0)
_IN_TRANSIT: Final = "about to be published"
_SPILLED: Final = JobWaiting(
    reason=waiting.Reason.SPILLED,
    detail="its queue was full: it comes in when that empties, the oldest of each tenant by turns",
    position=None,
    expected_start=None,
)


def look(*, names_operators: bool = False) -> Outlook:
    """Return what is known now of all queues, for who asks more than one thing of it. Raises broker.BrokerAway.

    `names_operators` tells who paused or drained: to operators, in the admin and on the command line.
    """
    return Outlook(snapshot.limits(), now=clock.now(), names_operators=names_operators)


def queue_rows(outlook: Outlook | None = None, *, names_operators: bool = False) -> list[QueueRow]:
    """Every job queue, in a stable order (an `outlook` says itself who is named). Raises broker.BrokerAway."""
    outlook = outlook or look(names_operators=names_operators)
    starts = broker.get_broker().starts(list(outlook.stats))
    return [_queue_row(outlook, name, found, starts[name]) for name, found in outlook.of_queues().items()]


def control_row() -> QueueRow:
    """Celery's own queue: of no model, and unbounded. Raises broker.BrokerAway."""
    [stats] = broker.get_broker().stats([routing.CONTROL_QUEUE])
    return QueueRow(
        queue=stats.queue,
        model="",
        tier="",
        length="",
        jobs=stats.jobs,
        tokens=stats.tokens,
        backlog_seconds=_age(stats, clock.now()),
        leases=stats.leases,
        cap=0,
    )


def waiting_of(
    jobs: Iterable[Job], outlook: Outlook | None = None, *, names_operators: bool = False
) -> dict[uuid.UUID, JobWaiting]:
    """Why each of the jobs waits that wait; queued ones not while Redis is away. Costs the same whatever waits."""
    jobs = list(jobs)
    spilled = {job.pk: _SPILLED for job in jobs if job.status == JobStatus.SPILLED}
    queued = [job.pk for job in jobs if job.status == JobStatus.QUEUED]
    if not queued:
        return spilled
    try:
        outlook = outlook or look(names_operators=names_operators)
        found = outlook.of_jobs(queued)
    except broker.BrokerAway:
        return spilled
    return spilled | {job_id: _job_waiting(found, job_id, outlook.now) for job_id in queued}


def worker_rows(workers: Iterable[Worker] | None = None, *, names_operators: bool = False) -> list[WorkerRow]:
    """Every known worker by name (or those given); silent ones stay, stale, until they are pruned."""
    now = clock.now()
    rows = [_worker_row(worker, now) for worker in (Worker.objects.all() if workers is None else workers)]
    return [_signed(row) for row in rows] if names_operators else rows


def _signed(row: WorkerRow) -> WorkerRow:
    """Return the row of a worker with who halted it."""
    return replace(row, state_detail=snapshot.limits().of_worker(row.name).signed(row.state_detail))


def rates_rows() -> dict[str, RatesRow]:
    """Each served model's rates, by its name; none while Redis is away."""
    models = snapshot.limits().models
    try:
        speeds = broker.get_broker().speeds(list(models))
    except broker.BrokerAway:
        return {}
    return {name: _rates_row(estimates.configured(model), speeds[name]) for name, model in models.items()}


def used_seconds(job: Job) -> float | None:
    """Service time of what a finished job brought, to be held against its estimate; None: not known."""
    rates = rates_rows().get(job.model_id)
    if rates is None or job.output_tokens is None:
        return None
    now = estimates.Rates(rates.prefill_tokens_per_second, rates.decode_tokens_per_second)
    expected = estimates.Estimate(job.prompt_tokens, job.expected_tokens, job.estimate_seconds)
    return estimates.used_seconds(expected, now, prompt_tokens=job.prompt_tokens, output_tokens=job.output_tokens)


def totals(queues: Sequence[QueueRow], workers: Sequence[WorkerRow]) -> Totals:
    """Sum up what `queue_rows` and `worker_rows` returned."""
    ready = [worker for worker in workers if worker.state is WorkerState.READY and not worker.stale]
    waits = [queue.expected_wait_seconds for queue in queues if queue.expected_wait_seconds is not None]
    return Totals(
        jobs=sum(queue.jobs for queue in queues),
        on_hold=sum(queue.on_hold for queue in queues),
        tokens=sum(queue.tokens for queue in queues),
        backlog_seconds=max((queue.backlog_seconds for queue in queues), default=0.0),
        expected_wait_seconds=max(waits, default=None),
        leases=sum(queue.leases for queue in queues),
        capacity=min((queue.capacity for queue in queues if queue.capacity is not None), default=None),
        claims_per_second=sum(queue.claims_per_second for queue in queues),
        objective=objectives.together(queue.objective for queue in queues if queue.objective),
        slots=sum(worker.slots for worker in ready),
        ready_workers=len(ready),
        workers=len(workers),
    )


def totals_by(part: Literal["queue", "model", "tier", "length"], rows: Sequence[QueueRow]) -> dict[str, Totals]:
    """Sum up what `queue_rows` returned by a part of the queues' names."""
    groups: dict[str, list[QueueRow]] = {}
    for row in rows:
        groups.setdefault(getattr(row, part), []).append(row)
    return {name: totals(rows, []) for name, rows in groups.items()}


def unfinished_by(part: Literal["tenant", "api_key"]) -> dict[str, JobCounts]:
    """Count the jobs that wait or run, by whose they are; those of nobody's key are left out."""
    found = (
        Job.objects.filter(functools.reduce(operator.or_, [Q(status=s) for s in (*WAITING, JobStatus.RUNNING)]))
        .values_list(f"{part}_id")
        .annotate(queued=Count("id", filter=Q(status__in=WAITING)), unfinished=Count("id"))
        .order_by()
    )
    return {whose: JobCounts(queued=queued, unfinished=unfinished) for whose, queued, unfinished in found if whose}


def jobs_for(tenant: str | None) -> QuerySet[Job]:
    """Return the tenant's jobs (None: everyone's), newest first."""
    return Job.objects.all() if tenant is None else Job.objects.filter(tenant=tenant)


def job_for(tenant: str | None, job_id: uuid.UUID, *, with_texts: bool = True) -> Job:
    """One job of the tenant (None: of any), if asked for without request and result, which may be long.

    Raises errors.NotFound, for another tenant's job too.
    """
    jobs = jobs_for(tenant).select_related("tenant")
    job = (jobs if with_texts else jobs.defer("request", "result")).filter(id=job_id).first()
    if job is None:
        raise _not_found(job_id)
    return job


def check_exists(tenant: str | None, job_id: uuid.UUID) -> None:
    """Raise errors.NotFound unless the tenant (None: any) has the job; reads no long text."""
    if not jobs_for(tenant).filter(id=job_id).exists():
        raise _not_found(job_id)


def _not_found(job_id: uuid.UUID) -> errors.NotFound:
    return errors.NotFound(f"No job {job_id}.", code="job_not_found")


def _queue_row(outlook: Outlook, queue: str, found: QueueOutlook, starts: Sequence[Starts]) -> QueueRow:
    stats, name, first = outlook.stats[queue], routing.parse(queue), found.waiting
    own, tier = outlook.limits.of_queue(queue), outlook.limits.tiers[name.tier]
    caps = outlook.limits.queue_caps(queue, name.tier)
    return QueueRow(
        queue=stats.queue,
        model=name.model,
        tier=name.tier,
        length=name.length,
        jobs=stats.jobs,
        tokens=stats.tokens,
        backlog_seconds=0.0 if own.is_paused else _age(stats, outlook.now),
        leases=stats.leases,
        cap=caps.jobs,
        bytes=stats.bytes,
        own_cap=own.max_jobs,
        on_hold=stats.on_hold,
        spilled=stats.spilled,
        watermark=_watermark(outlook, stats, caps),
        capacity=_capacity(outlook, queue),
        claims_per_second=stats.claims_per_second,
        objective=objectives.stand(tier.objective_share, tier.target_wait_seconds, starts),
        is_paused=own.is_paused,
        is_draining=own.is_draining,
        halted_by=own.halted_by if outlook.names_operators else "",
        waiting_reason=first.reason if first else "",
        waiting_detail=first.detail if first else "",
        expected_wait_seconds=found.expected_wait_seconds,
    )


def _capacity(outlook: Outlook, queue: str) -> int | None:
    name, limits = routing.parse(queue), outlook.limits
    model, tier = limits.models[name.model], limits.tiers[name.tier]
    serving = capacity.fleet(limits, queue, outlook.replicas)
    wait = capacity.borne_seconds(tier, model, serving)
    if wait is None:
        return None
    slots = capacity.own_slots(serving, limits.caps_in_flight(queue, name.tier, name.length)) or serving.slots
    return capacity.jobs(slots, mean_seconds=outlook.job_seconds(queue), wait_seconds=wait)


def _watermark(outlook: Outlook, stats: broker.QueueStats, caps: QueueCaps) -> Watermark:
    jobs = caps.jobs
    if outlook.limits.tiers[routing.parse(stats.queue).tier].max_wait_seconds is not None:
        jobs = capacity.most_jobs(outlook.limits, stats, outlook.replicas)
    used = ((stats.jobs, jobs), (stats.tokens, caps.tokens), (stats.bytes, caps.bytes))
    return watermarks.reached(watermarks.share(*used))


def _age(stats: broker.QueueStats, now: datetime) -> float:
    """Return the age of the oldest job by Redis' clock, as its arrival; ours may be a little behind that."""
    oldest = stats.oldest_arrival_ms
    return 0.0 if oldest is None else max(0.0, now.timestamp() - oldest / 1000)


def _job_waiting(found: Mapping[uuid.UUID, waiting.Waiting], job_id: uuid.UUID, now: datetime) -> JobWaiting:
    held = found.get(job_id)
    if held is None:
        return JobWaiting(reason=waiting.Reason.IN_TRANSIT, detail=_IN_TRANSIT, position=None, expected_start=None)
    start = None if held.seconds is None else now + timedelta(seconds=held.seconds)
    return JobWaiting(reason=held.reason, detail=held.detail, position=held.position, expected_start=start)


def _rates_row(configured: estimates.Rates, speed: estimates.Speed | None) -> RatesRow:
    measured = speed.rates(configured) if speed else configured
    return RatesRow(
        prefill_tokens_per_second=measured.prefill,
        decode_tokens_per_second=measured.decode,
        measured_calls=round(speed.calls) if speed and speed.is_enough else 0,
        configured_prefill_tokens_per_second=configured.prefill,
        configured_decode_tokens_per_second=configured.decode,
    )


def _worker_row(worker: Worker, now: datetime) -> WorkerRow:
    return WorkerRow(
        name=worker.name,
        model=worker.model_id,
        engine=worker.engine,
        device=worker.device,
        serve=tuple(worker.serve),
        host=worker.host,
        pid=worker.pid,
        state=WorkerState(worker.state),
        state_detail=worker.state_detail,
        slots=worker.slots,
        in_flight=worker.in_flight,
        kv_capacity_tokens=worker.kv_capacity_tokens,
        kv_used_tokens=worker.kv_used_tokens,
        started_at=worker.started_at,
        ready_at=worker.ready_at,
        silent_seconds=max(0.0, (now - worker.heartbeat_at).total_seconds()),
        stale=fleet.is_stale(worker.heartbeat_at, now=now),
    )
