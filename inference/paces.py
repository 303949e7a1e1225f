"""The pace of each model, read from rows: of this process, read anew after a while."""

import threading
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from inference.models import Job, JobEvent
from inference.states import JobEventKind, JobStatus
from inference.waiting import Pace

ROWS_READ: Final = 500
"""The last of the history, among which ends are looked for, and of what runs: bounded reads, whatever there is."""
MAX_AGE_SECONDS: Final = 2.0


class _Known:
    """What was read last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.read_at = float("-inf")
        self.ended: dict[str, tuple[float, float]] = {}
        """What those took that ended lately, and their estimates. A burst of other steps leaves the last known."""
        self.running: dict[str, tuple[float, float]] = {}
        """Mean and last start."""


_known = _Known()


def read(model: str) -> Pace:
    """Return a model's pace; what is in it is at most 2 s old."""
    with _known.lock:
        if time.monotonic() - _known.read_at > MAX_AGE_SECONDS:
            _known.ended |= _read_ended()
            _known.running, _known.read_at = _read_running(), time.monotonic()
        took, estimated = _known.ended.get(model, (None, None))
        began, last = _known.running.get(model, (None, None))
    return Pace(took_seconds=took, estimated_seconds=estimated, began_at=began, last_began_at=last)


def forget() -> None:
    """Drop what is known. For tests."""
    with _known.lock:
        _known.read_at = float("-inf")
        _known.ended, _known.running = {}, {}


def _read_ended() -> dict[str, tuple[float, float]]:
    last = JobEvent.objects.order_by("-id").values_list(
        "kind", "job__model_id", "job__started_at", "job__finished_at", "job__estimate_seconds"
    )[:ROWS_READ]
    ended: dict[str, list[tuple[float, float]]] = {}
    for kind, model, began, over, estimate in last:
        if kind == JobEventKind.SUCCEEDED and began and over:
            ended.setdefault(model, []).append(((over - began).total_seconds(), estimate))
    return {model: (_mean([t for t, _ in rows]), _mean([e for _, e in rows])) for model, rows in ended.items()}


def _read_running() -> dict[str, tuple[float, float]]:
    rows = Job.objects.filter(status=JobStatus.RUNNING).order_by("id").values_list("model_id", "started_at")
    began: dict[str, list[float]] = {}
    for model, started_at in rows[:ROWS_READ]:
        if isinstance(started_at, datetime):
            began.setdefault(model, []).append(started_at.timestamp())
    return {model: (_mean(moments), max(moments)) for model, moments in began.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
