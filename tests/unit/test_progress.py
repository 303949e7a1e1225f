"""An engine with work that shows no progress hangs; no other does."""

from typing import Any

from tests import factories
from workers.engine import EngineGauges
from workers.progress import STEP_TOKENS, Progress

LOOK_SECONDS = 5.0
STALL_SECONDS = 20.0


def gauges(**overrides: Any) -> EngineGauges:
    values: dict[str, Any] = {"running": 1, "waiting": 0, "kv_capacity_tokens": 100, "kv_used_share": 0.1}
    return EngineGauges(**{**values, "preemptions": 0, "computed_tokens": 7, **overrides})


class Looked:
    """A progress that is looked at every five seconds."""

    def __init__(self, **model: Any) -> None:
        limits = factories.make_model_limits(**{"stall_seconds": STALL_SECONDS, **model})
        self.progress = Progress(limits, look_seconds=LOOK_SECONDS)
        self.now = 1000.0
        self.look(gauges())

    def look(self, said: EngineGauges | None, *, after: float = LOOK_SECONDS) -> bool:
        self.now += after
        return self.progress.hangs(said, now=self.now)

    def looks_until_it_hangs(self, said: EngineGauges | None = None, *, most: int = 1000) -> int | None:
        return next((count for count in range(1, most) if self.look(said)), None)


def test_an_engine_that_has_nothing_to_do_does_not_hang() -> None:
    assert Looked().looks_until_it_hangs(gauges()) is None


def test_one_that_says_the_same_for_too_long_while_requests_run_hangs() -> None:
    looked = Looked()
    with looked.progress.call(b""):
        assert looked.looks_until_it_hangs(gauges()) == 5


def test_one_that_says_nothing_at_all_hangs_as_well() -> None:
    looked = Looked()
    with looked.progress.call(b""):
        assert looked.looks_until_it_hangs(None) == 5


def test_any_change_in_what_it_says_is_progress() -> None:
    looked = Looked()
    with looked.progress.call(b""):
        for share in range(1, 50):  # a long prompt, chunk by chunk: no token comes out, and none is counted yet
            assert not looked.look(gauges(kv_used_share=share / 50))


def test_output_is_progress_whatever_it_says() -> None:
    looked = Looked()
    with looked.progress.call(b""):
        for _ in range(50):
            looked.progress.hear()
            assert not looked.look(gauges())


def test_requests_that_come_and_are_cancelled_are_no_progress() -> None:
    looked = Looked()
    verdicts = []
    with looked.progress.call(b""):
        for _ in range(5):
            with looked.progress.call(b""):
                verdicts.append(looked.look(gauges()))
    assert verdicts == [False] * 4 + [True]


def test_the_patience_begins_with_the_first_request() -> None:
    looked = Looked()
    looked.look(gauges(), after=10_000)
    with looked.progress.call(b""):
        assert looked.looks_until_it_hangs(gauges()) == 5


def test_a_machine_that_stood_still_is_no_engine_that_hangs() -> None:
    looked = Looked()
    with looked.progress.call(b""):
        assert not looked.look(gauges(), after=10_000)
        assert not looked.look(gauges())


def test_patience_grows_with_the_prompts_up_to_one_step() -> None:
    looked = Looked(prefill_tokens_per_second=100.0, max_model_len=100_000)
    with looked.progress.call(b"x" * 2000):
        assert looked.progress.patience_seconds == STALL_SECONDS + 4 * 1000 / 100
        with looked.progress.call(b"x" * 10**7):
            assert looked.progress.patience_seconds == STALL_SECONDS + 4 * STEP_TOKENS / 100
    assert looked.progress.patience_seconds == STALL_SECONDS


def test_a_step_is_as_large_as_the_models_row_says() -> None:
    looked = Looked(prefill_tokens_per_second=100.0, max_num_batched_tokens=500)
    with looked.progress.call(b"x" * 10**6):
        assert looked.progress.patience_seconds == STALL_SECONDS + 4 * 500 / 100
