"""What was used and what it cost, as API, pages and admin show it: read from the sums that `lifecycle` keeps."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncMonth

from inference import charges, errors
from inference.charges import Sums
from inference.models import ApiKey, Usage

GROUPS: Final = ("day", "month", "tenant", "key", "model", "tier")
"""What usage can be summed up by."""
MAX_DAYS: Final = 400
"""Longest span of one question: thirteen months."""
MAX_ROWS: Final = 10_000
"""Of one answer; the export has no such bound."""
PAGE: Final = 1_000
"""Rows that an export reads at once."""

_ALL: Final = {name: Sum(name) for name in Sums._fields}


@dataclass(frozen=True, slots=True)
class Span:
    """Whose usage of which days, both inclusive; of UTC."""

    first: date
    last: date
    tenant: str | None
    """None: everyone's."""

    def __post_init__(self) -> None:
        """Raise errors.InvalidRequest for days in the wrong order, or too many."""
        if self.first > self.last:
            raise errors.InvalidRequest(f"from: {self.first} is after to, {self.last}", param="from")
        if (days := (self.last - self.first).days + 1) > MAX_DAYS:
            raise errors.InvalidRequest(f"from: at most {MAX_DAYS} days in one answer, not {days}", param="from")

    def rows(self) -> QuerySet[Usage]:
        """Return the stored rows of it."""
        found = Usage.objects.filter(day__range=(self.first, self.last))
        return found if self.tenant is None else found.filter(tenant=self.tenant)


@dataclass(frozen=True, slots=True)
class UsageRow:
    """The use of one group."""

    group: Mapping[str, date | str]
    """By those of `GROUPS` that were asked for, in that order."""
    sums: Sums
    key_name: str = ""
    """Of a group that has a key which still exists."""


def month(day: date, *, tenant: str | None) -> Span:
    """Return the whole month of the day, as a span."""
    return Span(charges.month_of(day), charges.next_month(day) - timedelta(days=1), tenant)


def summed(span: Span, group_by: Sequence[str]) -> list[UsageRow]:
    """Sum up by these of `GROUPS`. Raises errors.InvalidRequest for more than `MAX_ROWS` rows."""
    columns = ["api_key" if group == "key" else group for group in group_by]
    rows = span.rows().annotate(month=TruncMonth("day")) if "month" in group_by else span.rows()
    # Named apart: a sum may not have the name of what it sums up.
    sums = {f"all_{name}": every for name, every in _ALL.items()}
    found = list(rows.order_by(*columns).values_list(*columns).annotate(**sums)[: MAX_ROWS + 1])
    if len(found) > MAX_ROWS:
        message = f"group_by: more than {MAX_ROWS} rows; ask for fewer days or groups, or for usage.csv"
        raise errors.InvalidRequest(message, param="group_by")
    width = len(columns)
    return _named([UsageRow(dict(zip(group_by, row, strict=False)), Sums(*row[width:])) for row in found])


def total(rows: Iterable[UsageRow]) -> Sums:
    """Sum up what `summed` returned."""
    return functools.reduce(Sums.plus, (row.sums for row in rows), Sums())


def page(span: Span, after: tuple[date, int] | None) -> tuple[list[UsageRow], tuple[date, int] | None]:
    """Return the next stored rows, by day, and the place to go on from; None: that was all."""
    rows = span.rows().order_by("day", "id")
    if after:
        day, number = after
        rows = rows.filter(Q(day__gt=day) | Q(day=day, id__gt=number))
    found = list(rows[:PAGE])
    place = (found[-1].day, found[-1].pk) if len(found) == PAGE else None
    return _named([_stored(row) for row in found]), place


def _stored(row: Usage) -> UsageRow:
    group: dict[str, date | str] = {
        "day": row.day,
        "tenant": row.tenant,
        "key": row.api_key,
        "model": row.model,
        "tier": row.tier,
    }
    return UsageRow(group, Sums(*(getattr(row, name) for name in Sums._fields)))


def _named(rows: list[UsageRow]) -> list[UsageRow]:
    keys: set[Any] = {row.group["key"] for row in rows if row.group.get("key")}
    if not keys:
        return rows
    names = dict(ApiKey.objects.filter(prefix__in=keys).values_list("prefix", "name"))
    return [UsageRow(row.group, row.sums, names.get(str(row.group.get("key")), "")) for row in rows]
