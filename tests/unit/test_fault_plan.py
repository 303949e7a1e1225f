"""The faults that a seed stands for."""

import pytest

from tests.acceptance.faults import catalogue, plan

EVERYTHING = catalogue.faults(has_server=True, has_disk=True, has_clocks=True)
LITTLE = catalogue.faults(has_server=False, has_disk=False, has_clocks=False)

pytestmark = pytest.mark.once


def test_a_seed_stands_for_the_same_faults_always() -> None:
    assert plan.rounds(7, EVERYTHING, 10) == plan.rounds(7, EVERYTHING, 10)
    assert plan.rounds(7, EVERYTHING, 10) != plan.rounds(8, EVERYTHING, 10)


@pytest.mark.parametrize("known", [EVERYTHING, LITTLE])
@pytest.mark.parametrize("seed", range(50))
def test_every_kind_comes_up_before_any_comes_up_again(seed: int, known: list[plan.Fault]) -> None:
    dealt = [fault.kind for turn in plan.rounds(seed, known, 10) for fault in turn.faults]
    assert len(dealt) == 10
    assert min(10, len({fault.kind for fault in known})) - len(set(dealt)) <= 1  # one whose target was taken


@pytest.mark.parametrize("seed", range(50))
def test_a_process_has_one_fault_at_a_time_and_an_engine_falls_with_its_worker(seed: int) -> None:
    for turn in plan.rounds(seed, EVERYTHING, 10):
        seats = [fault.target.replace("engine", "worker") for fault in turn.faults]
        assert len(seats) == len(set(seats))


def test_a_hundred_seeds_leave_no_fault_out() -> None:
    dealt = {fault for seed in range(100) for turn in plan.rounds(seed, EVERYTHING, 10) for fault in turn.faults}
    assert dealt == set(EVERYTHING)


def test_what_this_machine_cannot_do_is_left_out() -> None:
    assert {fault.kind for fault in EVERYTHING} - {fault.kind for fault in LITTLE} == {
        "full",
        "an hour fast",
        "an hour slow",
    }
    assert {fault.target for fault in EVERYTHING} - {fault.target for fault in LITTLE} == {"database"}
