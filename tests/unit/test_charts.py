"""Bars of a month."""

from datetime import date

import pytest

from inference.charges import Sums
from inference.dashboard import charts

FIRST, LAST = date(2026, 11, 1), date(2026, 11, 30)


def test_every_day_has_a_bar_as_high_as_its_share_of_the_costliest() -> None:
    costs = {date(2026, 11, 2): Sums(cost_nano=50), date(2026, 11, 30): Sums(cost_nano=200)}
    bars = charts.chart(FIRST, LAST, costs).bars

    assert [bar.day.day for bar in bars] == list(range(1, 31))
    assert (bars[0].height, bars[1].height, bars[29].height) == (0, charts.HEIGHT // 4, charts.HEIGHT)
    assert all(bar.y + bar.height == charts.HEIGHT for bar in bars)
    assert bars[29].x + bars[29].width == pytest.approx(charts.WIDTH, abs=0.1), "it ends where the axis does"


def test_where_nothing_costs_anything_tokens_are_shown() -> None:
    tokens = {FIRST: Sums(prompt_tokens=30, output_tokens=10), LAST: Sums(prompt_tokens=1)}
    first, *_, last = charts.chart(FIRST, LAST, tokens).bars

    assert (first.height, last.height) == (charts.HEIGHT, charts.HEIGHT // 40)


def test_what_is_little_is_seen_and_nothing_is_not() -> None:
    bars = charts.chart(FIRST, LAST, {FIRST: Sums(cost_nano=10**9), LAST: Sums(cost_nano=1)}).bars

    assert 0 < bars[-1].height <= 2
    assert bars[1].height == 0
    assert {bar.height for bar in charts.chart(FIRST, LAST, {}).bars} == {0}


def test_the_scale_is_that_of_the_highest_day() -> None:
    most = Sums(cost_nano=200, prompt_tokens=1)
    chart = charts.chart(FIRST, LAST, {FIRST: Sums(cost_nano=50, prompt_tokens=99), LAST: most})
    assert (chart.is_priced, chart.highest) == (True, most)
    free = charts.chart(FIRST, LAST, {FIRST: Sums(prompt_tokens=99), LAST: Sums(output_tokens=1)})
    assert (free.is_priced, free.highest.tokens) == (False, 99)
