"""Nothing is pulled before the model is ready; afterwards never more than the engine takes."""

import json
from datetime import datetime
from typing import Any

import pytest

from inference.states import TERMINAL
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)

MAX_NUM_SEQS = 32
"""Of the seeded model."""


def most_at_once(jobs: list[dict[str, Any]]) -> int:
    """The most jobs that their histories show running at the same time."""
    steps = []
    for job in jobs:
        for event in job["history"]:
            if event["kind"] == "running":
                steps.append((datetime.fromisoformat(event["at"]), 1))
            elif event["kind"] in TERMINAL:
                steps.append((datetime.fromisoformat(event["at"]), -1))
    most = now = 0
    for _, change in sorted(steps):
        now += change
        most = max(most, now)
    return most


def test_jobs_wait_in_their_queues_while_the_engine_loads_and_all_succeed_once_it_is_ready(
    workerless: Stack,
) -> None:
    ids = fleet.submit(workerless, 50, tiers=("standard", "bulk"))
    with fleet.worker(workerless, "slow", sim="--load-seconds=20 --decode-tps=50") as worker:
        worker.wait_for("loading")

        assert fleet.pong(workerless, "slow") == {"slow"}
        with workerless.flower() as flower:
            rows = flower.get("/api/sluice/workers").json()["workers"]
        assert "loading" in json.dumps([row for row in rows if row["name"].startswith("slow@")])
        assert worker.is_in("loading"), "the checks took longer than the load"
        assert (fleet.waiting(workerless), fleet.leases(workerless)) == (50, 0)
        assert {row["tier"]: row["jobs"] for row in fleet.queues(workerless) if row["jobs"]} == {
            "standard": 25,
            "bulk": 25,
        }

        worker.wait_for("ready")
        finished = fleet.wait_until_finished(workerless, ids)

    assert {job["status"] for job in finished} == {"succeeded"}
    assert 1 < most_at_once(finished) <= MAX_NUM_SEQS


def test_a_worker_whose_engine_cannot_load_ends_with_an_error_and_takes_nothing(workerless: Stack) -> None:
    [waiting] = fleet.submit(workerless, 1)
    with fleet.worker(workerless, "broken", sim="--no-such-option") as worker:
        until(lambda: worker.process.poll() is not None, seconds=90, what="the worker gives up")

        assert worker.process.returncode != 0
    job = fleet.job(workerless, waiting)

    assert (job["status"], job["attempts"]) == ("queued", 0)
