import pytest

from inference.limits import WorkerLimits
from inference.states import WorkerState
from workers.vitals import Condition, halted

READY = Condition(WorkerState.READY, ready_at=100.0, kv_capacity_tokens=7)


@pytest.mark.parametrize(
    ("limits", "in_flight", "state", "detail"),
    [
        (WorkerLimits(is_paused=True, halted_by="user ann"), 0, WorkerState.PAUSED, ""),
        (WorkerLimits(is_paused=True, halted_by="user ann"), 2, WorkerState.PAUSED, "2 in flight"),
        (WorkerLimits(is_draining=True, halted_by="ann"), 2, WorkerState.DRAINING, "2 in flight"),
        (WorkerLimits(is_draining=True, halted_by="ann"), 0, WorkerState.DRAINING, "may be stopped"),
    ],
)
def test_a_halted_worker_is_not_ready(
    limits: WorkerLimits, in_flight: int, state: WorkerState, detail: str
) -> None:
    found = halted(READY, limits, in_flight=in_flight)
    assert (found.state, found.detail, found.ready_at) == (state, detail, None)
    assert found.kv_capacity_tokens == 7


@pytest.mark.parametrize("state", [WorkerState.LOADING, WorkerState.STOPPED, WorkerState.FAILED])
def test_what_its_engine_does_is_told_before_that(state: WorkerState) -> None:
    condition = Condition(state, "as it is")
    assert halted(condition, WorkerLimits(is_paused=True), in_flight=0) is condition


def test_one_that_is_not_halted_is_as_it_is() -> None:
    assert halted(READY, WorkerLimits(resumed_at=200.0), in_flight=0) is READY
