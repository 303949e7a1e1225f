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

pytestmark = [pytest.mark.timeout(360), pytest.mark.once]

ENV: Final = {
    "SLUICE_SIM_ARGS": "--decode-tps=15",
    "SLUICE_DRAIN_SECONDS": "2",
    "SLUICE_LEASE_SECONDS": "20",  # a worker reports every two seconds, and must not seem silent in between
}
NOTICED: Final = timedelta(seconds=5)
"""Workers follow the tables within a second; the others are for a machine that runs other tests."""


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


@pytest.fixture(scope="module")
def started() -> Iterator[Restartable]:
    """One stack for all tests here: starting one takes longer than most of them."""
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        found = Restartable(Path(name), ENV)
        yield found
        found.stop()
        databases.drop_of_stack(Path(name))


@pytest.fixture
def restartable(started: Restartable) -> Iterator[Restartable]:
    """The stack, of which each test ends what it left, and what it halted."""
    yield started
    for act in ("queues", "workers"):
        started.stack.manage(act, "resume", "*")
    for job_id in fleet.unfinished(started.stack):
        with started.stack.client() as client:
            client.post(f"/api/v1/jobs/{job_id}/cancel/")
    until(lambda: fleet.leases(started.stack) == 0, seconds=30, what="the engine is idle")


def queue_row(stack: Stack, tier: str) -> dict[str, Any]:
    [row] = [row for row in fleet.queues(stack) if (row["tier"], row["length"]) == (tier, "short")]
    return row


def leases(stack: Stack, tier: str) -> int:
    return int(queue_row(stack, tier)["leases"])


def reason(stack: Stack, job_id: str) -> str:
    waiting = fleet.job(stack, job_id)["waiting"]
    return str(waiting["reason"]) if waiting else "none"


def waits_for(stack: Stack, job_id: str, wanted: str) -> None:
    """Wait until the job is said to wait for that: what is told goes by the workers' last reports."""
    told: set[str] = set()

    def is_told() -> bool:
        told.add(reason(stack, job_id))
        return wanted in told

    try:
        until(is_told, seconds=30)
    except AssertionError:
        raise AssertionError(f"told {sorted(told)}, never {wanted}") from None


def starts(jobs: list[dict[str, Any]]) -> list[datetime]:
    return [
        datetime.fromisoformat(step["at"]) for job in jobs for step in job["history"] if step["kind"] == "running"
    ]


def queued(stack: Stack, ids: list[str]) -> list[str]:
    return [job["id"] for job in fleet.jobs(stack, ids) if job["status"] == "queued"]


def operator(stack: Stack, name: str) -> str:
    """A new key that may halt what there is."""
    return stack.manage("create_key", "--tenant", "default", "--name", name, "--operator").strip()


def halt(stack: Stack, what: str, key: str) -> httpx.Response:
    """Pause or drain at once: a command takes seconds to start on a busy machine."""
    with stack.client() as client:
        return client.post(f"/api/v1/{what}/", headers={"Authorization": f"Bearer {key}"})


def endless(stack: Stack, count: int, tier: str) -> list[str]:
    """Submit jobs of which none ends while a test looks."""
    return fleet.submit(stack, count, tiers=(tier,), max_tokens=1500, ignore_eos=True)


def test_nothing_of_a_paused_queue_starts_and_others_are_not_halted(restartable: Restartable) -> None:
    stack = restartable.stack
    queue, key = queue_row(stack, "bulk")["queue"], operator(stack, "pauses")
    ids = fleet.submit(stack, 200, tiers=("bulk",), max_tokens=50)
    until(lambda: leases(stack, "bulk") > 1, what="some of the bulk runs")
    assert halt(stack, f"queues/{queue}/pause", stack.api_key).status_code == 403
    paused_at = datetime.fromisoformat(halt(stack, f"queues/{queue}/pause", key).json()["halted_at"])
    until(lambda: leases(stack, "bulk") == 0, seconds=30, what="what runs has ended")

    assert max(starts(fleet.jobs(stack, ids))) < paused_at + NOTICED
    assert (reason(stack, queued(stack, ids)[0]), queue_row(stack, "bulk")["waiting_reason"]) == (
        "paused",
        "paused",
    )
    with stack.flower() as flower:
        shown = {row["queue"]: row for row in flower.get("/api/sluice/queues").json()["queues"]}
    assert shown[queue]["is_paused"] is True
    fleet.wait_until_finished(stack, fleet.submit(stack, 3))


def test_a_worker_that_drains_finishes_what_it_runs_and_says_when_it_may_be_stopped(
    restartable: Restartable,
) -> None:
    stack = restartable.stack
    [(short, worker)], key = fleet.registry(stack).items(), operator(stack, "drains")
    running = fleet.submit(stack, 4, max_tokens=200, ignore_eos=True)
    until(lambda: leases(stack, "standard") == 4, what="the jobs run")
    halt(stack, f"workers/{worker['name']}/drain", key).raise_for_status()
    until(lambda: "in flight" in fleet.registry(stack)[short]["state_detail"], what="it says what it still runs")
    assert fleet.registry(stack)[short]["state"] == "draining"
    [waits] = fleet.submit(stack, 1)
    waits_for(stack, waits, "worker_paused")
    assert {job["status"] for job in fleet.wait_until_finished(stack, running)} == {"succeeded"}
    assert reason(stack, waits) == "worker_paused"
    until(lambda: "may be stopped" in fleet.registry(stack)[short]["state_detail"], what="it may be stopped")


def test_what_is_halted_stays_so_over_a_restart_of_everything(restartable: Restartable) -> None:
    stack = restartable.stack
    queue = queue_row(stack, "bulk")["queue"]
    stack.manage("queues", "pause", queue)
    stack.manage("workers", "drain", "worker*")
    until(lambda: [w["state"] for w in fleet.registry(stack).values()] == ["draining"], what="it drains")
    [bulk], [waits] = fleet.submit(stack, 1, tiers=("bulk",)), fleet.submit(stack, 1)

    stack = restartable.restart()  # it is up though its worker is held
    until(lambda: [w["state"] for w in fleet.registry(stack).values()] == ["draining"], what="it drains again")
    waits_for(stack, bulk, "paused")
    waits_for(stack, waits, "worker_paused")
    stack.manage("workers", "resume", "worker*")
    assert [job["status"] for job in fleet.wait_until_finished(stack, [waits])] == ["succeeded"]
    assert (reason(stack, bulk), fleet.job(stack, bulk)["attempts"]) == ("paused", 0)
    assert stack.manage("queues", "resume", queue) == f"resume {queue}\n"
    assert [job["status"] for job in fleet.wait_until_finished(stack, [bulk])] == ["succeeded"]


def test_each_reason_to_wait_is_the_true_one(restartable: Restartable) -> None:
    stack = restartable.stack
    standard = endless(stack, 35, "standard")
    until(lambda: leases(stack, "standard") == 31, what="the engine is full but for its reserve")
    waits = queued(stack, standard)
    waits_for(stack, waits[0], "no_free_slot")
    told = [fleet.job(stack, job_id)["waiting"] for job_id in waits]
    assert sorted(waiting["position"] for waiting in told) == list(range(1, len(waits) + 1))
    assert all(waiting["expected_start"] for waiting in told)

    urgent = endless(stack, 3, "realtime")
    until(lambda: leases(stack, "standard") + leases(stack, "realtime") == 32, what="the engine is full")
    [behind, *_] = queued(stack, urgent)
    waits_for(stack, behind, "no_free_slot")
    waits_for(stack, waits[0], "fair_share")
    assert "no_free_slot" in stack.manage("queues")
