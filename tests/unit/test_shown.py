"""How pages write numbers and texts."""

import json
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from inference import clock
from inference.dashboard import texts
from inference.models import Job
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
