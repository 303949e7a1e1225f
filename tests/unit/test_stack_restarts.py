"""When a part that died is started again, and when it is given up."""

from project.stack import restarts
from project.stack.restarts import Restarts


def test_each_short_run_doubles_the_wait() -> None:
    record = Restarts()
    waits = [record.died(ran_seconds=1, was_ready=True) for _ in range(4)]
    assert waits == [0.5, 1.0, 2.0, 4.0]


def test_the_wait_has_an_end() -> None:
    record = Restarts()
    for _ in range(50):
        longest = record.died(ran_seconds=1, was_ready=True)
    assert longest == restarts.LONGEST_DELAY_SECONDS


def test_a_steady_run_clears_the_slate() -> None:
    record = Restarts()
    for _ in range(4):
        record.died(ran_seconds=1, was_ready=True)
    assert record.died(ran_seconds=restarts.STEADY_SECONDS, was_ready=True) == restarts.FIRST_DELAY_SECONDS


def test_a_part_that_never_gets_ready_is_given_up() -> None:
    record = Restarts()
    for _ in range(restarts.MOST_USELESS_RUNS):
        assert not record.failed_for_good
        record.died(ran_seconds=90, was_ready=False)
    assert record.failed_for_good


def test_a_part_that_was_ready_is_never_given_up() -> None:
    record = Restarts()
    for _ in range(100):
        record.died(ran_seconds=1, was_ready=True)
    assert not record.failed_for_good


def test_one_useful_run_forgives_the_useless_ones() -> None:
    record = Restarts()
    for was_ready in (False, False, True, False, False):
        record.died(ran_seconds=1, was_ready=was_ready)
    assert record.useless_runs == 2
