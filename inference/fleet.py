"""The registry of workers: what each last said about itself."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Min

from inference import clock, texts
from inference.limits import Rival
from inference.models import Worker
from inference.states import EngineKind, WorkerState

PRUNE_AFTER_LEASES: Final = 3
"""Silent for this many leases, a worker is gone: long after its jobs were rescued, so that pages show it stale."""

ENDING: Final = (WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED)
"""Of workers that claim nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """A worker's own account, sent at every change of state and every few seconds."""

    name: str
    model: str
    engine: EngineKind
    device: str
    serve: tuple[str, ...]
    host: str
    pid: int
    state: WorkerState
    started_at: datetime
    """By `inference.clock`, as all its moments."""
    ready_at: datetime | None
    """Since when it is ready; None while it is not."""
    state_detail: str = ""
    slots: int = 0
    in_flight: int = 0
    kv_capacity_tokens: int = 0
    kv_used_tokens: int = 0


def report(worker: WorkerReport, *, now: datetime | None = None) -> None:
    """Write the worker's row, in one statement. Raises django.db.Error, also if its model is gone."""
    values = asdict(worker) | {"serve": list(worker.serve)} | _texts(worker)
    model = values.pop("model")
    row = Worker(**values, model_id=model, heartbeat_at=now or clock.now())
    Worker.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["name"],
        update_fields=[f.name for f in Worker._meta.concrete_fields if not f.primary_key],
    )


def _texts(worker: WorkerReport) -> dict[str, str]:
    """Return what comes from the machine and the engine as the columns hold it."""
    return {
        "device": worker.device[:64],
        "host": worker.host[:255],
        "state_detail": texts.sound(worker.state_detail)[:255],
    }


def prune(now: datetime) -> list[str]:
    """Remove workers that were silent too long; returns their names."""
    gone = Worker.objects.filter(heartbeat_at__lt=now - PRUNE_AFTER_LEASES * _lease())
    names = list(gone.values_list("name", flat=True))
    # Asked again at the delete: one that was heard in between stays.
    return [name for name in names if gone.filter(name=name).delete()[0]]


def rivals(model: str, *, but: str) -> tuple[Rival, ...]:
    """Return the model's other workers that were heard lately and are not at their end, in a stable order."""
    heard = Worker.objects.filter(model=model, heartbeat_at__gte=clock.now() - _lease()).exclude(name=but)
    rows = heard.exclude(state__in=ENDING).order_by("name")
    return tuple(Rival(row.model_id, tuple(row.serve), row.kv_capacity_tokens or None) for row in rows)


def is_stale(heartbeat_at: datetime, *, now: datetime) -> bool:
    """Whether a worker last heard at `heartbeat_at` was silent for over a lease; both by `inference.clock`."""
    return now - heartbeat_at > _lease()


def ready_since(model: str, *, now: datetime) -> datetime | None:
    """Since when some worker of the model has been ready, of those ready and heard lately; None if none is."""
    ready = Worker.objects.filter(model=model, state=WorkerState.READY, heartbeat_at__gte=now - _lease())
    since: datetime | None = ready.aggregate(since=Min("ready_at"))["since"]
    return since


def _lease() -> timedelta:
    return timedelta(seconds=settings.LEASE_SECONDS)
