"""The margin that learns from preemptions."""

from workers.gate import Capacity
from workers.pressure import HALF_LIFE_SECONDS, Pressure

CAPACITY = Capacity(sequences=8, kv_tokens=6400, margin_tokens=64, largest_job_tokens=400)
"""An even share is 800 tokens."""


def pressed(*counts: int) -> Pressure:
    pressure = Pressure()
    for count in counts:
        pressure.note(count, CAPACITY, now=0.0)
    return pressure


def test_what_an_engine_preempted_before_the_first_look_says_nothing() -> None:
    assert pressed(7, 7).extra_tokens(now=0.0) == 0


def test_a_preemption_raises_the_margin_and_each_look_that_finds_more_doubles_that() -> None:
    assert pressed(0, 1).extra_tokens(now=0.0) == 100
    assert pressed(0, 1, 5).extra_tokens(now=0.0) == 200


def test_the_margin_grows_to_an_even_share_of_the_cache_at_most() -> None:
    assert pressed(*range(12)).extra_tokens(now=0.0) == 800


def test_what_was_added_fades_while_there_are_no_more() -> None:
    pressure = pressed(0, 1)
    pressure.note(1, CAPACITY, now=HALF_LIFE_SECONDS)
    assert pressure.extra_tokens(now=HALF_LIFE_SECONDS) == 50
    assert pressure.extra_tokens(now=10 * HALF_LIFE_SECONDS) == 0


def test_a_new_engine_counts_from_the_start_again() -> None:
    pressure = pressed(9, 0)
    assert pressure.extra_tokens(now=0.0) == 0
    pressure.note(1, CAPACITY, now=0.0)
    assert pressure.extra_tokens(now=0.0) == 100
