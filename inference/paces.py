"""The pace of each tier of a model, read from rows: of this process, read anew after a while."""

import threading
import time
from collections.abc import Sequence
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
        self.began: dict[tuple[str, str], float] = {}
        """Mean start of what runs, by model and tier; with "" for a tier, of all of the model."""
        self.last_began: dict[str, float] = {}
        """The last start of what runs."""


_known = _Known()


def read(model: str, tier: str) -> Pace:
    """Return the pace of a model's tier; what is in it is at most 2 s old."""
    with _known.lock:
        if time.monotonic() - _known.read_at > MAX_AGE_SECONDS:
            _look()
        took, estimated = _known.ended.get(model, (None, None))
        return Pace(
            took_seconds=took,
            estimated_seconds=estimated,
            began_at=_known.began.get((model, tier), _known.began.get((model, ""))),
            last_began_at=_known.last_began.get(model),
        )


def forget() -> None:
    """Drop what is known. For tests."""
    with _known.lock:
        _known.read_at, _known.ended = float("-inf"), {}


def _look() -> None:
    began = _read_running()
    _known.ended |= _read_ended()
    _known.began = {place: _mean(moments) for place, moments in began.items()}
    _known.last_began = {model: max(moments) for (model, tier), moments in began.items() if not tier}
    _known.read_at = time.monotonic()


def _read_ended() -> dict[str, tuple[float, float]]:
    last = JobEvent.objects.order_by("-id").values_list(
        "kind", "job__model_id", "job__started_at", "job__finished_at", "job__estimate_seconds"
    )[:ROWS_READ]
    ended: dict[str, list[tuple[float, float]]] = {}
    for kind, model, began, over, estimate in last:
        if kind == JobEventKind.SUCCEEDED and began and over:
            ended.setdefault(model, []).append(((over - began).total_seconds(), estimate))
    return {model: (_mean([t for t, _ in rows]), _mean([e for _, e in rows])) for model, rows in ended.items()}


def _read_running() -> dict[tuple[str, str], list[float]]:
    rows = Job.objects.filter(status=JobStatus.RUNNING).order_by("id")
    began: dict[tuple[str, str], list[float]] = {}
    for model, tier, started_at in rows.values_list("model_id", "tier_id", "started_at")[:ROWS_READ]:
        if started_at is not None:
            for place in ((model, tier), (model, "")):
                began.setdefault(place, []).append(started_at.timestamp())
    return began


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
