"""How pages write numbers and texts."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inference import clock, objectives
from inference.dashboard import texts
from inference.models import Job
from inference.objectives import Objective, Starts
from inference.rows import QueueRow
from inference.templatetags import shown

NONE = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NONE), (0, "0 s"), (0.04, "40 ms"), (3.21, "3.2 s"), (42.4, "42 s"),
        (700, "12 min"), (18_000, "5 h"),
    ],
)  # fmt: skip
def test_seconds_are_written_as_people_say_them(value: float | None, text: str) -> None:
    assert shown.seconds(value) == text


def test_times_between_moments_need_both() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)

    assert shown.since(moment + timedelta(seconds=5), moment) == "5.0 s"
    assert shown.since(None, moment) == NONE


def test_counts_have_thin_spaces_between_thousands() -> None:
    assert shown.count(1234567) == "1\u202f234\u202f567"
    assert shown.count(None) == NONE


def test_a_short_id_keeps_both_ends() -> None:
    assert shown.short(uuid.UUID("01a227de-815c-72e2-89f3-ace042df06a7")) == "01a227de…06a7"


def job(request: object, result: object = None) -> Job:
    return Job(request=json.dumps(request), result=json.dumps(result) if result else "")


@pytest.mark.parametrize(
    ("request_body", "text"),
    [
        ({"messages": [{"role": "user", "content": "Hi"}]}, "Hi"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}, "Hi"),
        ({"messages": [{"role": "system", "content": "Be brief"}, {"role": "assistant", "content": None}]},
         "system: Be brief\n\nassistant: "),
        ({"prompt": "Once"}, "Once"),
        ({"prompt": [1, 2, 3]}, "3 token ids"),
    ],
)  # fmt: skip
def test_a_prompt_is_shown_as_it_was_meant(request_body: object, text: str) -> None:
    assert texts.prompt(job(request_body)) == text


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, ""),
        ({"choices": []}, ""),
        ({"choices": [{"message": {"content": "Paris"}}]}, "Paris"),
        ({"choices": [{"text": "upon a time"}]}, "upon a time"),
        ({"choices": [{"message": {"content": None, "tool_calls": [{}]}}]}, "[\n  {}\n]"),
    ],
)  # fmt: skip
def test_an_answer_is_shown_whatever_its_kind(result: object, text: str) -> None:
    assert texts.answer(job({}, result)) == text


def test_a_very_long_text_is_cut_and_says_so() -> None:
    assert texts.cut("x" * 20_005).endswith("… and 5 more characters")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (-5, "at once"), (0.2, "in about 1 s"), (12, "in about 12 s"), (400, "in about 7 min")],
)
def test_a_start_is_foretold_in_whole_seconds(
    seconds: float | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(clock, "reckoned", lambda: now)
    assert shown.until(None if seconds is None else now + timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("position", "text"), [(None, ""), (1, ""), (2, "1 before it"), (1001, "1\u202f000 before it")]
)
def test_a_position_is_told_by_those_before_it(position: int | None, text: str) -> None:
    assert shown.ahead(position) == text


def test_a_reason_is_told_in_words() -> None:
    assert shown.words("no_free_slot") == "no free slot"


@pytest.mark.parametrize(("share", "text"), [(None, NONE), (1.0, "100 %"), (0.99996, "99.9 %"), (0.57, "57 %")])
def test_a_share_is_never_rounded_up_to_what_it_is_not(share: float | None, text: str) -> None:
    assert shown.share(share) == text


@pytest.mark.parametrize(("per_second", "text"), [(None, NONE), (0.0, NONE), (3.21, "3.2/s"), (0.05, "3/min")])
def test_a_rate_is_told_in_seconds_or_minutes(per_second: float | None, text: str) -> None:
    assert shown.rate(per_second) == text


@pytest.mark.parametrize(
    ("share", "within", "text"),
    [
        (None, 0.5, NONE),
        (0.95, 0.1, "95\u00a0% within 100\u00a0ms"),
        (0.999, None, "99.9\u00a0% before the deadline"),
    ],
)
def test_an_objective_is_told_with_its_time(share: float | None, within: float | None, text: str) -> None:
    assert shown.aim(objectives.stand(share, within, objectives.NOTHING)) == text


def test_how_it_was_kept_is_told_window_by_window() -> None:
    objective = objectives.stand(0.95, 0.1, [Starts(), Starts(96, 4), Starts(910, 90)])
    assert shown.kept(objective) == f"{NONE} · 96 % · 91 % in time, missed"
    told = "objective 95\u00a0% within 100\u00a0ms; 1 h: 96 % of 100, kept; 24 h: 91 % of 1\u202f000, missed"
    assert shown.in_time_in_words(row(objective)) == told
    assert shown.in_time_in_words(row(objective, waits=83)) == f"{told}; now the oldest waits 83 s"


def row(objective: Objective, *, waits: float = 0) -> QueueRow:
    """A queue whose oldest job has waited so long."""
    names: dict[str, Any] = dict.fromkeys(("queue", "model", "tier", "length"), "")
    numbers: dict[str, Any] = dict.fromkeys(("jobs", "tokens", "leases", "cap"), 0)
    return QueueRow(**names, **numbers, backlog_seconds=waits, objective=objective)


@pytest.mark.parametrize(
    ("starts", "waits", "mark", "text"),
    [
        (Starts(), 0, "", ""),
        (Starts(), 83, "late", "none in time so far"),
        (Starts(100, 0), 0, "kept", "100 % in time"),
        (Starts(100, 0), 83, "late", "100 % in time so far"),
        (Starts(1, 99), 0, "missed", "1 % in time, missed"),
        (Starts(1, 99), 83, "missed", "1 % in time, missed"),
    ],
)
def test_the_badge_of_a_queue_that_waits_too_long_is_not_that_of_one_that_keeps_its_objective(
    starts: Starts, waits: float, mark: str, text: str
) -> None:
    found = row(objectives.stand(0.95, 0.5, [starts] * 3), waits=waits)
    assert (shown.in_time_mark(found), shown.in_time(found)) == (mark, text)


@pytest.mark.parametrize(("share", "within", "mark"), [(0.999, None, "kept"), (None, 0.5, "no_objective")])
def test_nothing_is_late_without_a_share_and_a_wait_to_keep(
    share: float | None, within: float | None, mark: str
) -> None:
    assert shown.in_time_mark(row(objectives.stand(share, within, [Starts(9, 0)] * 3), waits=83)) == mark
