"""Live numbers beside the rows that they are about."""

from typing import Any, Final, Literal

from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest

from inference import broker, selectors
from inference.rows import Totals
from inference.templatetags import shown

COLUMNS: Final = ("waiting", "backlog", "running")


class WithBacklog:
    """Mixed into a ModelAdmin whose rows have queues: the columns `COLUMNS`, read once a page."""

    queues_by: Literal["queue", "model", "tier", "length"]
    """The part of a queue's name that the rows' keys are."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Put the numbers on the rows that the page shows; none while Redis is away."""
        page: Any = super().get_changelist_instance(request)  # type: ignore[misc]  # a mixin: ModelAdmin has it
        try:
            found = selectors.totals_by(self.queues_by)
        except broker.BrokerAway:
            return page
        for row in page.result_list:
            row.totals = found.get(row.pk, selectors.totals([], []))
        return page

    @admin.display(description="waiting")
    def waiting(self, row: Model) -> str:
        """Return the backlog in jobs."""
        totals = _totals(row)
        return shown.count(totals.jobs if totals else None)

    @admin.display(description="backlog")
    def backlog(self, row: Model) -> str:
        """Return the age of the oldest waiting job."""
        totals = _totals(row)
        return shown.seconds(totals.backlog_seconds if totals else None)

    @admin.display(description="running")
    def running(self, row: Model) -> str:
        """Return how many jobs workers hold."""
        totals = _totals(row)
        return shown.count(totals.leases if totals else None)


def _totals(row: Model) -> Totals | None:
    return getattr(row, "totals", None)
