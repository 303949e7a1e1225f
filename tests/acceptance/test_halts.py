"""Pause, drain and resume on a running stack; and that the reasons told for waiting are the true ones."""

import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests import databases
from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = [pytest.mark.timeout(240), pytest.mark.once]

ENV: Final = {
    "SLUICE_DRAIN_SECONDS": "2",
    "SLUICE_LEASE_SECONDS": "20",  # a worker reports every two seconds, and must not seem silent in between
}
NOTICED: Final = timedelta(seconds=2)
"""Workers follow the tables within a second; another for a machine that runs other tests."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that outlives a stack."""
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        yield Path(name)
        databases.drop_of_stack(Path(name))


class Restartable:
    """A stack that can be stopped and started again on what it left."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder, self.env = folder, env
        self.stack = self._start()

    def _start(self) -> Stack:
        (self.folder / "ready.json").unlink(missing_ok=True)
        self.process, self.mark = stacks.launch(self.folder, env=self.env)
        return stacks.wait_ready(self.process, self.mark, self.folder)

    def restart(self) -> Stack:
        """Stop every process, and start them all again."""
        self.stop()
        self.stack = self._start()
        return self.stack

    def stop(self) -> None:
        stacks.clean_up(self.process, self.mark)


@pytest.fixture
def restartable(folder: Path, request: pytest.FixtureRequest) -> Iterator[Restartable]:
    """A running stack, whose engine says as many tokens a second as the test asks for."""
    found = Restartable(folder, {**ENV, "SLUICE_SIM_ARGS": f"--decode-tps={request.param}"})
    yield found
    found.stop()


def queue_row(stack: Stack, tier: str) -> dict[str, Any]:
    [row] = [row for row in fleet.queues(stack) if (row["tier"], row["length"]) == (tier, "short")]
    return row


def reason(stack: Stack, job_id: str) -> str:
    waiting = fleet.job(stack, job_id)["waiting"]
    return str(waiting["reason"]) if waiting else "none"


def starts(jobs: list[dict[str, Any]]) -> list[datetime]:
    return [
        datetime.fromisoformat(step["at"]) for job in jobs for step in job["history"] if step["kind"] == "running"
    ]


def pause(stack: Stack, queue: str, key: str) -> httpx.Response:
    with stack.client() as client:
        return client.post(f"/api/v1/queues/{queue}/pause/", headers={"Authorization": f"Bearer {key}"})


@pytest.mark.parametrize("restartable", [20], indirect=True)
def test_what_is_paused_stays_so_over_a_restart_of_everything(restartable: Restartable) -> None:
    stack = restartable.stack
    operator = stack.manage("create_key", "--tenant", "default", "--name", "ops", "--operator").strip()
    queue = queue_row(stack, "bulk")["queue"]
    ids = fleet.submit(stack, 200, tiers=("bulk",), max_tokens=50)
    until(lambda: fleet.count(stack, "succeeded") > 1, what="some of the bulk ran")
    assert pause(stack, queue, stack.api_key).status_code == 403
    paused_at = datetime.fromisoformat(pause(stack, queue, operator).json()["halted_at"])
    until(lambda: queue_row(stack, "bulk")["leases"] == 0, seconds=30, what="what runs has ended")

    last = max(starts(fleet.jobs(stack, ids)))
    waits = next(job["id"] for job in fleet.jobs(stack, ids) if job["status"] == "queued")
    assert last < paused_at + NOTICED
    assert (reason(stack, waits), queue_row(stack, "bulk")["waiting_reason"]) == ("paused", "paused")
    with stack.flower() as flower:
        shown = {row["queue"]: row for row in flower.get("/api/sluice/queues").json()["queues"]}
    assert shown[queue]["is_paused"] is True
    fleet.wait_until_finished(stack, fleet.submit(stack, 3))  # others are not halted

    stack = restartable.restart()
    fleet.wait_until_finished(stack, fleet.submit(stack, 3))
    assert max(starts(fleet.jobs(stack, ids))) == last
    assert (reason(stack, waits), queue_row(stack, "bulk")["leases"]) == ("paused", 0)
    assert stack.manage("queues", "resume", queue) == f"resume {queue}\n"
    assert {job["status"] for job in fleet.wait_until_finished(stack, ids)} == {"succeeded"}


@pytest.mark.parametrize("restartable", [10], indirect=True)
def test_a_halted_worker_claims_nothing_and_says_so_until_it_is_resumed(restartable: Restartable) -> None:
    stack = restartable.stack
    running = fleet.submit(stack, 4, max_tokens=200, ignore_eos=True)
    until(lambda: fleet.count(stack, "running") == 4, what="the jobs run")
    [name] = stack.manage("workers", "drain", "worker*").removeprefix("drain ").split()
    short = name.partition("@")[0]
    until(lambda: fleet.registry(stack)[short]["state"] == "draining", what="the worker says that it drains")
    assert "in flight" in fleet.registry(stack)[short]["state_detail"]
    [waits] = fleet.submit(stack, 1)
    assert reason(stack, waits) == "worker_paused"
    assert {job["status"] for job in fleet.wait_until_finished(stack, running)} == {"succeeded"}
    assert reason(stack, waits) == "worker_paused"
    until(lambda: "may be stopped" in fleet.registry(stack)[short]["state_detail"], what="it may be stopped")

    stack = restartable.restart()  # it is up though its worker is held
    until(lambda: fleet.registry(stack)[short]["state"] == "draining", what="the worker drains again")
    assert (reason(stack, waits), fleet.job(stack, waits)["attempts"]) == ("worker_paused", 0)
    stack.manage("workers", "resume", short)
    [done] = fleet.wait_until_finished(stack, [waits])
    assert done["status"] == "succeeded"


def test_each_reason_to_wait_is_the_true_one() -> None:
    with stacks.running(env={**ENV, "SLUICE_SIM_ARGS": "--decode-tps=1"}) as stack:
        standard = fleet.submit(stack, 35, max_tokens=400, ignore_eos=True)  # so that none ends meanwhile
        until(lambda: queue_row(stack, "standard")["leases"] == 31, what="the engine is full but for its reserve")
        waits = [job["id"] for job in fleet.jobs(stack, standard) if job["status"] == "queued"]
        until(lambda: reason(stack, waits[0]) == "reserved_slots", what="what is free is reserved")
        told = [fleet.job(stack, job_id)["waiting"] for job_id in waits]
        assert sorted(waiting["position"] for waiting in told) == list(range(1, len(waits) + 1))
        assert all(waiting["expected_start"] for waiting in told)

        urgent = fleet.submit(stack, 3, tiers=("realtime",), max_tokens=400, ignore_eos=True)
        until(lambda: queue_row(stack, "realtime")["leases"] == 1, what="the reserve is taken")
        until(lambda: fleet.count(stack, "running") == 32, what="the engine is full")
        behind = next(job["id"] for job in fleet.jobs(stack, urgent) if job["status"] == "queued")
        assert reason(stack, behind) == "no_free_slot"
        assert reason(stack, waits[0]) == "fair_share"
        assert "no_free_slot" in stack.manage("queues")
