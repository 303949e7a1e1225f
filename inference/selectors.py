"""What pages, API, metrics and Flower show: each number is computed here, once."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import QuerySet
from django.utils import timezone

from inference import broker, errors, fleet, routing, snapshot
from inference.models import Job, Worker
from inference.states import WorkerState


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue now."""

    queue: str
    model: str
    tier: str
    length: str
    jobs: int
    """Backlog: admitted, not started."""
    tokens: int
    """Prompt and expected output tokens of the backlog."""
    backlog_seconds: float
    """Age of the oldest waiting job; 0 if none waits."""
    leases: int
    """Jobs held by workers."""
    cap: int
    """Most jobs that may wait; 0 for the control queue, which has no cap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker as it last reported itself."""

    name: str
    model: str
    engine: str
    device: str
    serve: tuple[str, ...]
    host: str
    pid: int
    state: WorkerState
    state_detail: str
    slots: int
    in_flight: int
    kv_capacity_tokens: int
    kv_used_tokens: int
    started_at: datetime
    ready_at: datetime | None
    heartbeat_at: datetime
    stale: bool
    """Not heard for longer than a worker may be silent: what the row says is old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All queues and workers in a few numbers."""

    jobs: int
    """Backlog of all queues."""
    tokens: int
    backlog_seconds: float
    """Of the queue that waits longest."""
    leases: int
    slots: int
    """Of the workers that may claim."""
    ready_workers: int
    workers: int


def queue_rows(queues: Sequence[str] | None = None) -> list[QueueRow]:
    """Every job queue (or those named, `control` too), in a stable order. Raises broker.BrokerAway."""
    limits = snapshot.limits()
    names = limits.queues() if queues is None else list(queues)
    now_ms = timezone.now().timestamp() * 1000
    return [_queue_row(stats, limits.queue_cap(stats.queue), now_ms) for stats in broker.get_broker().stats(names)]


def worker_rows(workers: Iterable[Worker] | None = None) -> list[WorkerRow]:
    """Every known worker by name (or those given); silent ones stay, stale, until they are pruned."""
    now = timezone.now()
    return [_worker_row(worker, now) for worker in (Worker.objects.all() if workers is None else workers)]


def totals(queues: Sequence[QueueRow], workers: Sequence[WorkerRow]) -> Totals:
    """Sum up what `queue_rows` and `worker_rows` returned."""
    ready = [worker for worker in workers if worker.state is WorkerState.READY and not worker.stale]
    return Totals(
        jobs=sum(queue.jobs for queue in queues),
        tokens=sum(queue.tokens for queue in queues),
        backlog_seconds=max((queue.backlog_seconds for queue in queues), default=0.0),
        leases=sum(queue.leases for queue in queues),
        slots=sum(worker.slots for worker in ready),
        ready_workers=len(ready),
        workers=len(workers),
    )


def totals_by(part: Literal["queue", "model", "tier", "length"]) -> dict[str, Totals]:
    """Sum up the queues by a part of their name. Raises broker.BrokerAway."""
    groups: dict[str, list[QueueRow]] = {}
    for row in queue_rows():
        groups.setdefault(getattr(row, part), []).append(row)
    return {name: totals(rows, []) for name, rows in groups.items()}


def jobs_for(tenant: str | None) -> QuerySet[Job]:
    """Return the tenant's jobs (None: everyone's), newest first."""
    return Job.objects.all() if tenant is None else Job.objects.filter(tenant=tenant)


def job_for(tenant: str | None, job_id: uuid.UUID) -> Job:
    """One job of the tenant (None: of any). Raises errors.NotFound, for another tenant's job too."""
    job = jobs_for(tenant).select_related("tenant").filter(id=job_id).first()
    if job is None:
        raise _not_found(job_id)
    return job


def check_exists(tenant: str | None, job_id: uuid.UUID) -> None:
    """Raise errors.NotFound unless the tenant (None: any) has the job; reads no long text."""
    if not jobs_for(tenant).filter(id=job_id).exists():
        raise _not_found(job_id)


def _not_found(job_id: uuid.UUID) -> errors.NotFound:
    return errors.NotFound(f"No job {job_id}.", code="job_not_found")


def _queue_row(stats: broker.QueueStats, cap: int, now_ms: float) -> QueueRow:
    is_control = stats.queue == routing.CONTROL_QUEUE  # Celery's own tasks: of no model, and unbounded
    name = routing.QueueName("", "", "") if is_control else routing.parse(stats.queue)
    oldest = stats.oldest_arrival_ms
    return QueueRow(
        queue=stats.queue,
        model=name.model,
        tier=name.tier,
        length=name.length,
        jobs=stats.jobs,
        tokens=stats.tokens,
        # The arrival is by Redis' clock, which may be a little ahead of ours.
        backlog_seconds=0.0 if oldest is None else max(0.0, now_ms - oldest) / 1000,
        leases=stats.leases,
        cap=0 if is_control else cap,
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
        heartbeat_at=worker.heartbeat_at,
        stale=fleet.is_stale(worker.heartbeat_at, now=now),
    )
