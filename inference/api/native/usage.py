"""Usage and cost: sums as JSON, and every stored row as CSV."""

import functools
from datetime import date
from typing import Final

from django.conf import settings
from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers as drf
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from inference import budgets, charges, clock, usage
from inference.api import authentication, serializers, tables
from inference.api.handler import ApiRequest
from inference.submission import Caller

HEADS: Final = (
    *("day", "tenant", "key", "key_name", "model", "tier"),
    *("jobs", "prompt_tokens", "output_tokens", "engine_seconds", "cost", "currency"),
)
"""Of an export."""

_ANSWER: Final = inline_serializer(
    "Usage",
    {
        "from": drf.DateField(),
        "to": drf.DateField(),
        "time_zone": drf.CharField(help_text="Of days and months: always UTC."),
        "currency": drf.CharField(),
        "group_by": drf.ListField(child=drf.CharField()),
        "rows": serializers.UsageRowSerializer(many=True),
        "total": serializers.SumsSerializer(),
        "budgets": serializers.BudgetSerializer(many=True),
    },
)


class Usage(APIView):
    """What the caller's tenant used, or for operators every tenant."""

    @extend_schema(operation_id="usage", parameters=[serializers.UsageAskedSerializer], responses=_ANSWER)
    def get(self, request: Request) -> Response:
        """Sum usage and cost up, by day unless `group_by` says otherwise, with this month's budgets."""
        caller: Caller = request.user.caller  # type: ignore[union-attr]  # it is a KeyHolder
        asked = serializers.UsageAskedSerializer(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        span, group_by = asked.span(caller), asked.validated_data["group_by"]
        rows = usage.summed(span, group_by)
        return Response(
            {
                "from": span.first,
                "to": span.last,
                "time_zone": "UTC",
                "currency": settings.CURRENCY,
                "group_by": group_by,
                "rows": serializers.UsageRowSerializer(rows, many=True).data,
                "total": serializers.SumsSerializer(usage.total(rows)).data,
                "budgets": serializers.BudgetSerializer(
                    budgets.spending(span.tenant, clock.now()), many=True
                ).data,
            }
        )


async def usage_csv(request: ApiRequest) -> HttpResponseBase:
    """GET /api/v1/usage.csv: one line per day, tenant, key, model and tier."""
    return export(request, await authentication.caller(request))


def export(request: ApiRequest, caller: Caller) -> HttpResponseBase:
    """Return the rows that the caller may see as a download. Raises errors of `inference.errors`."""
    asked = serializers.SpanSerializer(data=request.GET.dict())
    asked.is_valid(raise_exception=True)
    span = asked.span(caller)
    return tables.stream(f"usage-{span.first}-{span.last}.csv", HEADS, functools.partial(_page, span))


def _page(
    span: usage.Span, after: tuple[date, int] | None
) -> tuple[list[list[tables.Cell]], tuple[date, int] | None]:
    rows, place = usage.page(span, after)
    return [_cells(row) for row in rows], place


def _cells(row: usage.UsageRow) -> list[tables.Cell]:
    day, tenant, key, model, tier = (str(row.group[name]) for name in ("day", "tenant", "key", "model", "tier"))
    sums = row.sums
    counts = (sums.jobs, sums.prompt_tokens, sums.output_tokens, sums.engine_seconds)
    return [day, tenant, key, row.key_name, model, tier, *counts, charges.money(sums.cost), settings.CURRENCY]
