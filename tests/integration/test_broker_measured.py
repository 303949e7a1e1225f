"""The wait that admission's script measures by a queue's claims is that of the pure code."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.broker import Broker
from inference.limits import KeyLimits, QueueCaps, TenantLimits
from tests.integration import scripts_by_clock
from tests.integration.admission_ledger import Ask, Pass, Step, Verb
from tests.integration.broker_jobs import QUEUE, claim, make_entry
from tests.integration.scripts_by_clock import START_MS, set_clock
from tests.integration.test_broker_admission import live_through

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests


def _ask(first: int, jobs: int, max_wait_ms: int | None) -> Ask:
    """Ask for short ones of the first queue."""
    caps = QueueCaps(100)
    return Ask(
        first=first,
        jobs=((0, 50, 30, 7),) * jobs,
        tenant="ann",
        key=KeyLimits(),
        limits=TenantLimits(),
        caps=caps,
        max_wait_ms=max_wait_ms,
        model_bytes=None,
        own_slots=None,
        held_jobs=0,
        may_spill=False,
    )


@st.composite
def _histories(draw: st.DrawFn) -> list[Step]:
    """A queue that is filled and drained at some pace, with pauses; a probe tells it, for which it is too long."""
    paces = st.sampled_from((1, 900, 1_999, 2_000, 4_000))
    pauses = st.sampled_from((9_000, 13_000, 31_000))
    verbs = st.sampled_from(("claim", "claim", "claim", "ack", "ack", "ack", "release"))
    verb = st.builds(Verb, verbs, st.integers(0, 3), st.none())
    step: Any = st.one_of(verb, verb, st.builds(Pass, paces), st.builds(Pass, paces | pauses))
    history: list[Step] = []
    takes_ms = st.sampled_from((0, 0, 1_500, 4_000))
    rounds = st.tuples(st.sampled_from((1, 1, 3)), st.lists(step, max_size=4))
    for number, (jobs, steps) in enumerate(draw(st.lists(rounds, min_size=15, max_size=30))):
        published = [Verb("publish", 0, None)] * jobs
        history += [_ask(3 * number, jobs, None), *published, *steps, _ask(1000 + number, 1, draw(takes_ms))]
    return history


@pytest.mark.once
@settings(max_examples=25)
@given(history=_histories())
def test_the_script_and_the_pure_code_measure_the_same_wait(valkey: str, history: list[Step]) -> None:
    live_through(valkey, history)


def test_all_that_is_claimed_within_half_a_minute_says_how_fast_a_queue_moves(broker: Broker) -> None:
    set_clock(broker, START_MS)
    broker.publish([make_entry() for _ in range(20)])
    claimed_at_ms = ((0, 1), (1, 2), (1_999, 3), (2_000, 4), (9_000, 2), (9_001, 1))
    for ms, jobs in claimed_at_ms:
        set_clock(broker, START_MS + ms)
        claim(broker, limit=jobs)
    for ms, moved in ((9_001, 13), (31_999, 13), (32_000, 7), (39_999, 3), (40_000, 0)):
        set_clock(broker, START_MS + ms)
        (row,) = broker.stats([QUEUE])
        assert row.claims_per_second * (30 + ms % 2_000 / 1_000) == pytest.approx(moved)
