"""The registry of workers: what each last said about itself."""

from dataclasses import dataclass
from datetime import datetime

from inference.states import EngineKind, WorkerState


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
    ready_at: datetime | None
    """Since when it is ready; None while it is not."""
    state_detail: str = ""
    slots: int = 0
    in_flight: int = 0
    kv_capacity_tokens: int = 0
    kv_used_tokens: int = 0


def report(worker: WorkerReport, *, now: datetime | None = None) -> None:
    """Write the worker's row (insert or update). Raises django.db.Error."""
    raise NotImplementedError


def forget(name: str) -> None:
    """Remove a worker's row; nothing happens if there is none."""
    raise NotImplementedError


def prune(now: datetime) -> list[str]:
    """Remove workers that were silent too long; returns their names."""
    raise NotImplementedError


def ready_since(model: str, *, now: datetime) -> datetime | None:
    """Since when some worker of the model has been ready, of those ready and heard lately; None if none is."""
    raise NotImplementedError
