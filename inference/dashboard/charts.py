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
    x: int
    y: int
    width: int
    height: int


def bars(first: date, last: date, by_day: Mapping[date, Sums]) -> list[Bar]:
    """Return a bar for each day, as high as its share of the costliest; by tokens if nothing costs anything."""
    days = list(_days(first, last))
    found = [by_day.get(day, Sums()) for day in days]
    is_priced = any(sums.cost_nano for sums in found)
    values = [sums.cost_nano if is_priced else sums.prompt_tokens + sums.output_tokens for sums in found]
    most, step = max(values, default=0), WIDTH // len(days)
    heights = [max(_LEAST, round(HEIGHT * value / most)) if value else 0 for value in values]
    return [
        Bar(day, sums, i * step, HEIGHT - height, step - _GAP, height)
        for i, (day, sums, height) in enumerate(zip(days, found, heights, strict=True))
    ]


def _days(first: date, last: date) -> Iterator[date]:
    for number in range((last - first).days + 1):
        yield first + timedelta(days=number)
