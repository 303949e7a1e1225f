"""The plain decision on a queue's answer."""

import uuid
from typing import Any

import pytest

from inference import admission
from inference.broker import Admission


def make_offer(**overrides: Any) -> admission.Offer:
    values: dict[str, Any] = {"queue": "m.standard.short", "job_ids": [uuid.uuid4()], "cap": 10}
    values |= {"seconds": 1.0, "slots": 32}
    return admission.Offer(**values | overrides)


def test_an_accepted_offer_is_no_refusal() -> None:
    assert admission.decide(make_offer(), Admission(accepted=True, waiting=3, cap=10)) is None


def test_a_refusal_names_queue_limit_and_what_waits() -> None:
    refusal = admission.decide(make_offer(), Admission(accepted=False, waiting=10, cap=10))

    assert refusal is not None
    assert refusal.message == "queue m.standard.short takes at most 10 waiting jobs; 10 wait, 1 more asked for"
    assert (refusal.status, refusal.code) == (429, "queue_full")


@pytest.mark.parametrize(
    ("seconds", "slots", "expected"), [(0.1, 32, 1), (64.0, 32, 2), (65.0, 32, 3), (1e9, 1, 120)]
)
def test_retry_after_is_the_time_to_work_off_as_much_within_bounds(
    seconds: float, slots: int, expected: float
) -> None:
    assert admission.retry_after(make_offer(seconds=seconds, slots=slots)) == expected
