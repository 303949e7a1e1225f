"""What a worker makes of its calls: what each used, and what all of them teach."""

from collections.abc import Sequence
from typing import Any

import pytest
import uuid_utils.compat

from inference.broker import Claimed, LengthOf, Lessons
from inference.estimates import Output
from inference.lifecycle import Work
from inference.states import Endpoint, FailureReason
from tests import factories
from workers import meter as meter_module
from workers.meter import Meter
from workers.observer import MOST_CALLS, Observer, taught
from workers.outcomes import Cancelled, Completed, Failed, Outcome

MODEL = factories.make_model_limits(prefill_tokens_per_second=1000.0, decode_tokens_per_second=10.0)
MINE = LengthOf("key=sk-abcd1234", "short")


class Clock:
    """Stands in for the meter's clock: time passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(meter_module, "time", made)
    return made


def make_claimed(**overrides: Any) -> Claimed:
    """A job that was estimated at the configured rates: 0.1 s for its prompt, 2 s for its output."""
    values: dict[str, Any] = {
        "token": factories.make_token(uuid_utils.compat.uuid7()),
        "queue": f"{MODEL.name}.standard.short",
        "tenant": "default",
        "prompt_tokens": 100,
        "expected_tokens": 20,
        "estimate": 2.1,
        "arrival_ms": 1,
        "claimed_ms": 1,
        "streamed": False,
        "body": b"",
    }
    return Claimed(**values | overrides)


def make_work(api_key_id: str | None = "sk-abcd1234.hash") -> Work:
    now = factories.make_new_job().created_at
    return Work(
        endpoint=Endpoint.CHAT,
        request="{}",
        api_key_id=api_key_id,
        model=MODEL.name,
        tier="standard",
        streamed=False,
        attempt=1,
        engine_crashes=0,
        created_at=now,
        started_at=now,
    )


def make_completed(**overrides: Any) -> Completed:
    values: dict[str, Any] = {"result": "{}", "finish_reason": "stop", "prompt_tokens": 100, "output_tokens": 5}
    return Completed(**values | overrides)


def make_observer() -> Observer:
    limits = factories.make_limits(models={MODEL.name: MODEL})
    return Observer(MODEL, lambda: limits)


def ran(clock: Clock, *, seconds: float, chunks: int = 0, ended: bool = True) -> Meter:
    """A call that took so long, its first chunk after half of that."""
    meter = Meter()
    meter.start()
    clock.now += seconds / 2
    if chunks:
        meter.hear(chunks)
    clock.now += seconds / 2
    if ended:
        meter.stop()
    return meter


@pytest.mark.parametrize(
    ("outcome", "seconds"),
    [
        (make_completed(), 0.6),
        (make_completed(output_tokens=20), 2.1),
        (make_completed(prompt_tokens=300, output_tokens=40), 4.3),
        (make_completed(prompt_tokens=None), 0.6),
    ],
)
def test_a_finished_job_used_its_tokens_whatever_time_it_took(
    clock: Clock, outcome: Outcome, seconds: float
) -> None:
    meter = ran(clock, seconds=77.0)
    assert make_observer().used(make_claimed(), outcome, meter) == pytest.approx(seconds)


def test_what_was_used_is_told_in_the_currency_of_the_estimate(clock: Clock) -> None:
    """The rates have doubled since: a job that took just what was expected is not charged half of it back."""
    meter, claimed = ran(clock, seconds=1.05), make_claimed(estimate=4.2)
    assert make_observer().used(claimed, make_completed(output_tokens=20), meter) == pytest.approx(4.2)


def test_a_job_that_never_reached_the_engine_used_nothing(clock: Clock) -> None:
    clock.now += 50
    assert make_observer().used(make_claimed(), None, Meter()) == 0
    assert make_observer().used(make_claimed(), Failed(FailureReason.BAD_REQUEST, "too long"), Meter()) == 0


def test_a_stream_that_was_cancelled_used_its_prompt_and_what_it_brought(clock: Clock) -> None:
    meter = ran(clock, seconds=9.0, chunks=7, ended=False)
    assert make_observer().used(make_claimed(), Cancelled(), meter) == pytest.approx(0.8)


@pytest.mark.parametrize(("seconds", "used"), [(0.5, 0.5), (3600.0, 2.1)])
def test_of_a_plain_call_that_did_not_end_the_time_counts_up_to_the_estimate(
    clock: Clock, seconds: float, used: float
) -> None:
    meter = ran(clock, seconds=seconds, ended=False)
    failed = Failed(FailureReason.RUN_TIMEOUT, "too long")
    assert make_observer().used(make_claimed(), failed, meter) == pytest.approx(used)


def test_what_comes_after_the_end_of_a_call_is_not_counted(clock: Clock) -> None:
    """As a database that is away when the end is to be written."""
    meter = ran(clock, seconds=0.5)
    clock.now += 60
    meter.stop()
    assert make_observer().used(make_claimed(), Cancelled(), meter) == pytest.approx(0.5)


def noted(clock: Clock, outcomes: Sequence[Outcome], *, api_key_id: str | None = "sk-abcd1234.hash") -> Observer:
    observer = make_observer()
    for outcome in outcomes:
        observer.note(make_claimed(), make_work(api_key_id), outcome, ran(clock, seconds=0.6))
    return observer


def test_calls_teach_their_keys_length_class_and_their_model(clock: Clock) -> None:
    observer = noted(clock, [make_completed()] * 20)
    after = taught(Lessons(MODEL.name, None, {}), list(observer._seen), MODEL)
    assert set(after.outputs) == {MINE}
    assert after.outputs[MINE] == Output(pytest.approx(5), 20)  # type: ignore[arg-type]
    assert after.speed is not None
    assert after.speed.is_enough


def test_only_whole_answers_teach(clock: Clock) -> None:
    outcomes: list[Outcome] = [
        Cancelled(),
        Failed(FailureReason.RUN_TIMEOUT, "x"),
        make_completed(output_tokens=None),
    ]
    assert not noted(clock, outcomes)._seen


def test_a_dashboard_users_jobs_teach_for_the_tenant(clock: Clock) -> None:
    [seen] = noted(clock, [make_completed()], api_key_id=None)._seen
    assert seen.kind == LengthOf("tenant=default", "short")


def test_an_answer_cut_by_its_limit_is_known_to_be(clock: Clock) -> None:
    [seen] = noted(clock, [make_completed(finish_reason="length")])._seen
    assert seen.is_cut


def test_what_is_kept_until_the_next_flush_is_bounded(clock: Clock) -> None:
    observer = noted(clock, [make_completed() for _ in range(MOST_CALLS + 50)])
    assert len(observer._seen) == MOST_CALLS
