"""The page of usage and cost: a month's sums, bars by day, budgets, and the same as a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET

from inference import budgets, charges, clock, errors, executor, usage
from inference.api.handler import ApiRequest
from inference.api.native.usage import export
from inference.dashboard import access, charts
from inference.submission import Caller

MONTHS: Final = 13
"""To choose from."""
EVERYONE: Final = "*"
"""As a tenant: an operator asks for all of them."""


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """A budget as the page shows it."""

    spending: budgets.Spending

    @property
    def percent(self) -> int:
        """Share that is spent, 100 at most."""
        nano = self.spending.budget.nano
        return 100 if self.spending.spent_nano >= nano else 100 * self.spending.spent_nano // nano

    @property
    def monthly(self) -> Any:
        """The budget."""
        return charges.amount(self.spending.budget.nano)

    @property
    def spent(self) -> Any:
        """What ended jobs cost."""
        return charges.amount(self.spending.spent_nano)


@require_GET
@access.member
def page(request: HttpRequest, caller: Caller) -> HttpResponse:
    """Show a month, `?month=2026-11`, this one by default; operators choose between their tenant and everyone."""
    now = clock.now()
    this_month = charges.month_of(charges.day_of(now))
    month = _month(request.GET.get("month"), this_month)
    everyone = caller.is_operator and request.GET.get("tenant") == EVERYONE
    span = usage.month(month, tenant=None if everyone else caller.tenant)
    context = {
        "caller": caller,
        "month": month,
        "months": _last_months(this_month),
        "everyone": everyone,
        "currency": settings.CURRENCY,
        "span": span,
        "budgets": [BudgetBar(each) for each in budgets.spending(span.tenant, now)] if month == this_month else [],
        **_sums(span),
    }
    return render(request, "dashboard/usage.html", context)


async def download(request: ApiRequest) -> HttpResponseBase:
    """GET /dashboard/streams/usage.csv: as `/api/v1/usage.csv`, for a session in place of a key."""
    return export(request, await executor.run(access.caller_by_cookie, request))


def _sums(span: usage.Span) -> Mapping[str, Any]:
    by_day = {row.group["day"]: row.sums for row in usage.summed(span, ["day"])}
    rows = usage.summed(
        span, ["tenant", "model", "tier", "key"] if span.tenant is None else ["model", "tier", "key"]
    )
    rows.sort(key=lambda row: (-row.sums.cost_nano, -row.sums.prompt_tokens - row.sums.output_tokens))
    return {
        "rows": rows,
        "total": usage.total(rows),
        "chart": charts.chart(span.first, span.last, by_day),  # type: ignore[arg-type]  # days are dates
        "size": f"0 0 {charts.WIDTH} {charts.HEIGHT}",
    }


def _month(asked: str | None, this_month: date) -> date:
    if not asked:
        return this_month
    try:
        month = datetime.strptime(asked, "%Y-%m").date()  # noqa: DTZ007 - a month has no zone but ours
        charges.next_month(month)  # the calendar's last one has none
    except (ValueError, OverflowError):
        raise errors.InvalidRequest("month must be a month, as 2026-11", param="month") from None
    return month


def _last_months(month: date) -> list[date]:
    found = [month]
    while len(found) < MONTHS:
        found.append(charges.month_of(found[-1] - timedelta(days=1)))
    return found
