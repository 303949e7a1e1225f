"""Worker processes on an engine at a URL: they wait for it, say what is wrong, and lose no job with it."""

from collections.abc import Iterator

import pytest

from inference.broker import Broker
from inference.models import Job
from inference.states import EngineKind, JobEventKind, JobStatus, WorkerState
from tests import engines as builders
from tests.integration import worker_processes
from tests.integration.worker_processes import SLOW, Fleet, Process, all_are, events, running, submit
from tests.waiting import until

fleet = worker_processes.fleet
KEY = "sk-of-the-engine"


@pytest.fixture
def sim() -> Iterator[builders.TcpSim]:
    """An engine that is not there yet, and asks for a key."""
    sim = builders.TcpSim(*SLOW.split(), key=KEY)
    yield sim
    sim.kill()


def start(fleet: Fleet, sim: builders.TcpSim, key: str = KEY) -> Process:
    options = ("--device", "external", "--engine", "external", "--engine-url", f"{sim.url}/v1")
    return fleet.worker("worker-1", *options, SLUICE_ENGINE_KEY=key)


def says(worker: Process, words: str) -> None:
    until(
        lambda: (row := worker.row) and row.state == WorkerState.LOADING and words in row.state_detail,
        seconds=worker_processes.START_SECONDS,
        what=f"the worker says {words!r}",
    )


def test_jobs_wait_for_an_engine_that_comes_later_and_again_when_it_dies_under_them(
    fleet: Fleet, sluice: Broker, sim: builders.TcpSim
) -> None:
    ids = submit(3, output_tokens=120)
    worker = start(fleet, sim)
    says(worker, "cannot be reached")
    assert running(ids) == 0

    sim.start()
    until(lambda: running(ids) == 3, seconds=worker_processes.START_SECONDS)
    until(lambda: sim.gauge("vllm:num_requests_running") == 3, what="the engine has what is on record as running")
    sim.kill()
    says(worker, "cannot be reached")
    sim.start()

    all_are(ids, JobStatus.SUCCEEDED)
    assert events(ids, JobEventKind.RELEASED) == 3
    assert set(Job.objects.filter(id__in=ids).values_list("attempts", "engine_crashes")) == {(1, 1)}
    assert worker.row
    assert (worker.row.engine, worker.row.device) == (EngineKind.EXTERNAL, "external")
    worker_processes.nothing_is_held(sluice)


def test_a_worker_with_a_wrong_key_says_so_and_claims_nothing(
    fleet: Fleet, sluice: Broker, sim: builders.TcpSim
) -> None:
    ids = submit(1)
    sim.start()
    worker = start(fleet, sim, key="sk-wrong")

    says(worker, "refuses the key")

    assert (worker.is_running(), running(ids)) == (True, 0)
    assert "sk-wrong" not in worker.log.read_text() + builders.command_line(worker.pid)
