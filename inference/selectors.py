"""What pages, API, metrics and Flower show: each number is computed here, once."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from inference.models import Job
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
    """Most jobs that may wait."""


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


def queue_rows(queues: Sequence[str] | None = None) -> list[QueueRow]:
    """Every queue (or those named), in a stable order. Raises broker.BrokerAway."""
    raise NotImplementedError


def worker_rows() -> list[WorkerRow]:
    """Every known worker by name; stopped ones stay until they are pruned."""
    raise NotImplementedError


def jobs_for(tenant: str) -> QuerySet[Job]:
    """Return the tenant's jobs, newest first."""
    raise NotImplementedError


def job_for(tenant: str | None, job_id: uuid.UUID) -> Job:
    """One job of the tenant (None: of any). Raises errors.NotFound, for another tenant's job too."""
    raise NotImplementedError
