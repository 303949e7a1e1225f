"""The admin's first page: how things are, and who changed what last."""

from typing import Any, Final

from django.http import HttpRequest

from inference import broker, selectors, snapshot
from inference.models import Edit
from inference.rows import QueueRow, WorkerRow
from inference.templatetags import shown

EDITS_SHOWN: Final = 8


def context(request: HttpRequest, page: dict[str, Any]) -> dict[str, Any]:
    """Add live numbers, for those who may look at them; without Redis, that it is away."""
    page |= {"limits": snapshot.standing(), "edits": _edits(request)}
    if request.user.has_perm("inference.view_worker"):
        page["workers"] = selectors.worker_rows(names_operators=True)
    if request.user.has_perm("inference.view_queuelimit"):
        page |= _queues(page.get("workers", []))
    return page


def environment(_request: HttpRequest) -> list[str] | None:
    """Return the mark beside each page's title while this process cannot read limits, and goes by older ones."""
    standing = snapshot.standing()
    return [f"limits {shown.seconds(standing.age_seconds)} old", "danger"] if standing.error else None


def _queues(workers: list[WorkerRow]) -> dict[str, Any]:
    try:
        rows = selectors.queue_rows(names_operators=True)
    except broker.BrokerAway:
        return {"redis_is_away": True}
    return {"totals": selectors.totals(rows, workers), "queues": [row for row in rows if _is_worth_a_look(row)]}


def _is_worth_a_look(row: QueueRow) -> bool:
    return bool(row.jobs or row.leases or row.is_paused or row.is_draining)


def _edits(request: HttpRequest) -> list[Edit]:
    may_look = request.user.has_perm("inference.view_edit")
    return list(Edit.objects.select_related("undoes")[:EDITS_SHOWN]) if may_look else []
