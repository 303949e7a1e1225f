"""Live numbers beside the rows that they are about."""

import contextlib
from typing import Any, Final, Literal

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from inference import broker, consequences, selectors
from inference.rows import QueueRow, Totals
from inference.templatetags import shown

COLUMNS: Final = ("waiting", "running", "rate", "backlog", "expected_wait")

Part = Literal["queue", "model", "tier", "length"]


class WithBacklog:
    """Mixed into a ModelAdmin whose rows have queues: the columns `COLUMNS`, read once a page."""

    queues_by: Part
    """The part of a queue's name that the rows' keys are."""
    bounds: frozenset[str]
    """Fields that refuse jobs or hold them back."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Put the numbers on the rows that the page shows; none while Redis is away."""
        page: Any = super().get_changelist_instance(request)  # type: ignore[misc]  # a mixin: ModelAdmin has it
        try:
            queues = selectors.queue_rows()
        except broker.BrokerAway:
            return page
        found = selectors.totals_by(self.queues_by, queues)
        for row in page.result_list:
            row.totals = found.get(row.pk, selectors.totals([], []))
            row.queues = [queue for queue in queues if getattr(queue, self.queues_by) == row.pk]
        return page

    def look(self, request: HttpRequest) -> None:
        """Read the queues before a change."""
        with contextlib.suppress(broker.BrokerAway):
            request.__dict__["_queues"] = selectors.queue_rows()

    def seen(self, request: HttpRequest) -> list[QueueRow] | None:
        """Return what was read before the change; None: Redis was away."""
        return request.__dict__.get("_queues")

    def consequences(self, request: HttpRequest, before: Any, after: Any, changed: set[str]) -> list[str]:
        """Return what a change of `bounds` would refuse or hold back."""
        if not self.bounds & changed:
            return []
        rows = self.seen(request)
        if rows is None:
            return [consequences.UNKNOWN]
        return self.taken_away(before, after, [row for row in rows if getattr(row, self.queues_by) == after.pk])

    def taken_away(self, before: Any, after: Any, rows: list[QueueRow]) -> list[str]:
        """Return what a change does to these queues: one of `inference.consequences`."""
        raise NotImplementedError

    @admin.display(description="waiting")
    def waiting(self, row: Model) -> str:
        """Return the backlog in jobs, and how many of them are on hold."""
        totals = _totals(row)
        told = shown.count(totals.jobs if totals else None)
        return f"{told} ({shown.count(totals.on_hold)} on hold)" if totals and totals.on_hold else told

    @admin.display(description="backlog seconds")
    def backlog(self, row: Model) -> str:
        """Return the age of the oldest waiting job."""
        totals = _totals(row)
        return shown.seconds(totals.backlog_seconds if totals else None)

    @admin.display(description="running")
    def running(self, row: Model) -> str:
        """Return how many jobs workers hold."""
        totals = _totals(row)
        return shown.count(totals.leases if totals else None)

    @admin.display(description="starts")
    def rate(self, row: Model) -> str:
        """Return how fast it drains, by the last half minute."""
        totals = _totals(row)
        return shown.rate(totals.claims_per_second if totals else None)

    @admin.display(description="capacity")
    def capacity(self, row: Model) -> str:
        """Return the jobs that live workers start within the max wait, in the queue where these are fewest."""
        totals = _totals(row)
        return shown.count(totals.capacity if totals else None)

    @admin.display(description="in time")
    def in_time(self, row: Model) -> str:
        """Return which share of jobs started so lately, and whether that misses the objective."""
        totals = _totals(row)
        return (shown.share_in_time(totals) if totals else "") or shown.NONE

    @admin.display(description="expected wait")
    def expected_wait(self, row: Model) -> str:
        """Return how long a job that came now would wait, in the queue where that is longest."""
        totals = _totals(row)
        return shown.seconds(totals.expected_wait_seconds if totals else None)


def _totals(row: Model) -> Totals | None:
    return getattr(row, "totals", None)
