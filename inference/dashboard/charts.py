"""Bars for a page whose security policy allows no inline style: numbers for an SVG. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from inference.charges import Sums

WIDTH: Final = 620
HEIGHT: Final = 120
_GAP: Final = 4
_LEAST: Final = 2
"""Of a bar that stands for anything at all."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One day."""

    day: date
    sums: Sums
    x: float
    y: int
    width: float
    height: int


@dataclass(frozen=True, slots=True)
class Chart:
    """The days of a span, by cost, or by tokens if nothing costs anything."""

    bars: list[Bar]
    is_priced: bool
    highest: Sums
    """Of the day whose bar is as high as the chart."""


def chart(first: date, last: date, by_day: Mapping[date, Sums]) -> Chart:
    """Return a bar for each day, as high as its share of the highest; the last one ends where the chart does."""
    days = list(_days(first, last))
    found = [by_day.get(day, Sums()) for day in days]
    is_priced = any(sums.cost_nano for sums in found)
    values = [sums.cost_nano if is_priced else sums.tokens for sums in found]
    most, step = max(values), (WIDTH + _GAP) / len(days)
    heights = [max(_LEAST, round(HEIGHT * value / most)) if value else 0 for value in values]
    bars = [
        Bar(day, sums, round(i * step, 2), HEIGHT - height, round(step - _GAP, 2), height)
        for i, (day, sums, height) in enumerate(zip(days, found, heights, strict=True))
    ]
    return Chart(bars, is_priced, found[values.index(most)])


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)
