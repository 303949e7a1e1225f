"""The arithmetic and the pages of the benchmark suite."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import backlogged, catalogue, load, open_load, report, returning, stack, statistics, tenants, trace
from bench.goals import Goal
from bench.row import Measured, Row
from workers.sim import request
from workers.sim.config import SimConfig

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
    assert [row.id[0] for row in catalogue.chosen([])] == ["B"] * 13
    assert [row.id for row in catalogue.chosen(["S1"])] == ["S1"]
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


def test_the_mean_and_the_slope_are_those_of_all_values() -> None:
    assert statistics.mean([1.0, 2.0, 6.0]) == 3
    assert statistics.slope([(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)]) == pytest.approx(2)
    with pytest.raises(ValueError, match="different x"):
        statistics.slope([(1.0, 5.0), (1.0, 7.0)])


def test_the_trace_is_the_same_in_every_run() -> None:
    window = trace.window()
    tiers = Counter(arrival.tier for arrival in window)

    assert len(window) == 1_445
    assert (window[0].prompt_tokens, window[0].output_tokens) == (374, 44)
    assert [arrival.at for arrival in window] == sorted(arrival.at for arrival in window)
    assert {tier: round(count / len(window), 1) for tier, count in tiers.items()} == {
        "realtime": 0.2,
        "standard": 0.6,
        "bulk": 0.2,
    }
    assert [arrival.tier for arrival in window[:4]] == [trace.deal(number) for number in range(4)]


def test_a_load_is_the_share_of_the_time_that_the_engine_needs() -> None:
    work = [trace.Arrival(at, 1_000, 100, "bulk") for at in (0.0, 1.0, 3.0)]
    engine = trace.Engine(slots=2, prefill_tps=1_000, decode_tps=100)

    assert engine.seconds(work) == 4.5
    stretched = trace.stretched(work, busy_seconds=4.5, load=0.9)
    assert [arrival.at for arrival in stretched] == pytest.approx([0, 5 / 3, 5])


def test_lengths_shrink_to_a_token_at_least() -> None:
    [small] = trace.shrunk([trace.Arrival(0.0, 1_000, 7, "bulk")], 16)
    assert (small.prompt_tokens, small.output_tokens) == (62, 1)


def test_a_load_reaches_its_client_as_it_was_told() -> None:
    request = open_load.Request(at=1.5, prompt_tokens=3, output_tokens=2, service_tier="flex", key="sk-1")
    told = open_load.Spec(
        target=load.Target("http://engine", socket="engine.sock"),
        requests=[request],
        background=open_load.Background(at_once=2, bodies=[{"max_tokens": 1}, {"max_tokens": 2}]),
        warm_seconds=3.0,
    )
    assert open_load.parse(json.dumps(dataclasses.asdict(told))) == told


def test_nothing_tells_how_long_a_bulk_job_will_be() -> None:
    config = SimConfig(model=stack.MODEL)
    asked = [request.parse(config, json.dumps(body).encode(), is_chat=True) for body in backlogged.bulk()]

    assert (
        len({body["max_tokens"] for body in backlogged.bulk()}) == len({each.prompt_tokens for each in asked}) == 1
    )
    assert len({len(each.reply) for each in asked}) > len(asked) / 2


def test_an_answer_that_is_no_success_spoils_a_measurement() -> None:
    good = open_load.Answer(200, "id", 0.0, 0.1, 0.2)
    assert open_load.all_good([good]) == [good]
    with pytest.raises(RuntimeError, match="1 of 2 requests failed, the first with 429"):
        open_load.all_good([good, open_load.Answer(429, "", 0.0, 0.1, 0.2)])


@pytest.mark.parametrize(
    ("statuses", "was_refused", "came_in_at_once"),
    [
        ([200], False, False),
        ([429, 200], True, True),
        ([429, 429, 200], True, False),
        ([429, 0], True, False),
        ([429], True, False),
        ([503], False, False),
    ],
)
def test_who_came_back_came_in_if_the_first_retry_succeeded(
    statuses: list[int], was_refused: bool, came_in_at_once: bool
) -> None:
    outcome = returning.Outcome(statuses)
    assert (outcome.was_refused, outcome.came_in_at_once) == (was_refused, came_in_at_once)


def test_only_what_ended_in_the_window_was_served_in_it() -> None:
    assert tenants.served_tokens([job(finished_at=9.9), job(finished_at=20.0)], "a", (10, 20)) == 0
    assert tenants.served_tokens([job(finished_at=10.0), job(tenant="b", finished_at=11.0)], "a", (10, 20)) == 15


def test_what_did_not_start_has_no_queue_time() -> None:
    assert job(started_at=3.5).queue_seconds == 2.5
    with pytest.raises(ValueError, match="did not start"):
        _ = job(started_at=None).queue_seconds


def job(**overrides: Any) -> stack.Job:
    fields: dict[str, Any] = {
        "id": "1",
        "tenant": "a",
        "tier": "standard",
        "length": "short",
        "status": "succeeded",
        "worker": "worker-1",
        "prompt_tokens": 10,
        "output_tokens": 5,
        "estimate_seconds": 1.0,
        "created_at": 1.0,
        "started_at": 2.0,
        "finished_at": 3.0,
    }
    return stack.Job(**(fields | overrides))


@pytest.mark.parametrize(
    ("ratio", "line"), [(3.4, "B7 ratio 3.4 goal >= 3 ok"), (2.9, "B7 ratio 2.9 goal >= 3 short")]
)
def test_a_line_says_whether_the_goal_is_met(ratio: float, line: str) -> None:
    assert report.lines(ROW, Measured({"ratio": ratio})) == [line]


def test_rows_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    old = report.entry(ROW, Measured({"ratio": 2.0}), FACTS)
    new = report.entry(ROW, Measured({"ratio": 4.0}), FACTS)
    report.save({"S1": old, "B14": old, "B7": old}, tmp_path)
    report.save(report.merge(report.load(tmp_path), {"B7": new}), tmp_path)
    kept = report.load(tmp_path)

    assert list(kept) == ["B7", "B14", "S1"]
    assert (kept["B7"]["figures"]["ratio"], kept["B14"]["figures"]["ratio"]) == (4.0, 2.0)
    assert "| B7 | jobs/s | ratio 4 goal ≥ 3 ok |" in (tmp_path / "results.md").read_text()


def test_half_of_the_requests_are_streamed_evenly() -> None:
    assert [load.is_streamed(number, 0.5) for number in range(4)] == [False, True, False, True]
    assert all(load.is_streamed(number, 1.0) for number in range(4))
    assert not any(load.is_streamed(number, 0.0) for number in range(4))
