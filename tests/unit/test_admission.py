"""The plain decision on a queue's answer."""

import uuid
from typing import Any

import pytest

from inference import admission, estimates
from inference.broker import Admission
from inference.estimates import Call, Demand, Learned, Speed
from tests import factories


def make_offer(**overrides: Any) -> admission.Offer:
    values: dict[str, Any] = {"queue": "m.standard.short", "job_ids": [uuid.uuid4()], "cap": 10}
    values |= {"owner": "tenant=default", "model": factories.make_model_limits(), "demands": [Demand(10, 20)]}
    return admission.Offer(**values | overrides)


def test_an_accepted_offer_is_no_refusal() -> None:
    assert admission.decide(make_offer(), Admission(accepted=True, waiting=3, cap=10)) is None


def test_a_refusal_names_queue_limit_and_what_waits() -> None:
    refusal = admission.decide(make_offer(), Admission(accepted=False, waiting=10, cap=10))

    assert refusal is not None
    assert refusal.message == "queue m.standard.short takes at most 10 waiting jobs; 10 wait, 1 more asked for"
    assert (refusal.status, refusal.code) == (429, "queue_full")


@pytest.mark.parametrize(
    ("outputs", "slots", "expected"), [([1], 32, 1), ([600], 32, 2), ([200, 450], 32, 3), ([10_000] * 9, 1, 120)]
)
def test_retry_after_is_the_time_to_work_off_as_much_within_bounds(
    outputs: list[int], slots: int, expected: float
) -> None:
    rates: dict[str, Any] = {"prefill_tokens_per_second": 1e6, "decode_tokens_per_second": 10.0}
    model = factories.make_model_limits(
        max_num_seqs=slots, default_output_tokens=20_000, max_model_len=50_000, **rates
    )
    offer = make_offer(model=model, demands=[Demand(1, tokens) for tokens in outputs])
    assert admission.retry_after(offer, estimates.NOTHING) == expected


def test_retry_after_goes_by_the_rates_that_were_measured() -> None:
    model = factories.make_model_limits(max_num_seqs=1, decode_tokens_per_second=10.0)
    offer, speed = make_offer(model=model, demands=[Demand(10, 200)]), Speed()
    for _ in range(20):
        speed = speed.after(Call(10, 200, 5.0), estimates.configured(model))
    assert admission.retry_after(offer, estimates.NOTHING) == 21
    assert admission.retry_after(offer, Learned(speed=speed)) == pytest.approx(5, abs=1)
