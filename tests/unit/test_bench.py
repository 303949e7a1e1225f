"""The arithmetic and the pages of the benchmark suite."""

from pathlib import Path

import pytest

from bench import catalogue, load, report, statistics
from bench.goals import Goal
from bench.row import Measured, Row

ROW = Row(id="B7", text="jobs/s", goals=("ratio >= 3",), measure=lambda _: Measured({}))
FACTS = {"cores": "2"}


@pytest.mark.parametrize(
    ("text", "value", "is_met"),
    [
        ("ratio >= 3", 3.0, True),
        ("ratio >= 3", 2.99, False),
        ("p50_ms <= 5", 5.0, True),
        ("p50_ms <= 5", 5.1, False),
    ],
)
def test_a_goal_is_met_up_to_its_bound(text: str, value: float, is_met: bool) -> None:
    assert Goal.parse(text).is_met(value) is is_met


@pytest.mark.parametrize("text", ["ratio > 3", "ratio >= fast", ">= 3", ""])
def test_what_is_no_goal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a goal"):
        Goal.parse(text)


def test_every_row_has_goals_that_can_be_read() -> None:
    assert all(row.parsed_goals() for row in catalogue.ROWS.values())


def test_rows_are_chosen_by_name_in_the_order_of_the_catalogue() -> None:
    assert [row.id for row in catalogue.chosen(["B7", "B1"])] == ["B1", "B7"]
    assert len(catalogue.chosen([])) == len(catalogue.ROWS)
    with pytest.raises(ValueError, match="no such row: B99"):
        catalogue.chosen(["B99"])


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(1, 101)]

    assert statistics.percentile(values, 0.99) == 99
    assert statistics.median(values) == 50
    assert statistics.percentile([7.0], 0.99) == 7


def test_a_ratio_needs_a_baseline() -> None:
    assert statistics.ratio(6, 2) == 3
    with pytest.raises(ValueError, match="baseline"):
        statistics.ratio(6, 0)


@pytest.mark.parametrize(
    ("ratio", "line"), [(3.4, "B7 ratio 3.4 goal >= 3 ok"), (2.9, "B7 ratio 2.9 goal >= 3 short")]
)
def test_a_line_says_whether_the_goal_is_met(ratio: float, line: str) -> None:
    assert report.lines(ROW, Measured({"ratio": ratio})) == [line]


def test_rows_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    old = report.entry(ROW, Measured({"ratio": 2.0}), FACTS)
    new = report.entry(ROW, Measured({"ratio": 4.0}), FACTS)
    report.save({"B14": old, "B7": old}, tmp_path)
    report.save(report.merge(report.load(tmp_path), {"B7": new}), tmp_path)
    kept = report.load(tmp_path)

    assert list(kept) == ["B7", "B14"]
    assert (kept["B7"]["figures"]["ratio"], kept["B14"]["figures"]["ratio"]) == (4.0, 2.0)
    assert "| B7 | jobs/s | ratio 4 goal ≥ 3 ok |" in (tmp_path / "results.md").read_text()


def test_half_of_the_requests_are_streamed_evenly() -> None:
    assert [load.is_streamed(number, 0.5) for number in range(4)] == [False, True, False, True]
    assert all(load.is_streamed(number, 1.0) for number in range(4))
    assert not any(load.is_streamed(number, 0.0) for number in range(4))
