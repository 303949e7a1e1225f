"""Nothing is pulled before the model is ready; afterwards never more than the engine takes."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings

from inference.states import TERMINAL
from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = pytest.mark.timeout(240)

MAX_NUM_SEQS = 32
"""Of the seeded model."""


def celery_ping(stack: Stack) -> dict[str, Any]:
    """What `celery inspect ping` says, by node."""
    command = [sys.executable, "-m", "celery", "-A", "project", "inspect", "ping", "--json", "--timeout", "5"]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=stack.environment(), capture_output=True, text=True, check=False
    )
    return dict(json.loads(done.stdout))


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


def test_jobs_wait_in_their_queues_while_the_engine_loads_and_all_succeed_once_it_is_ready() -> None:
    with stacks.running("--workers", "0") as stack:
        ids = fleet.submit(stack, 50, tiers=("standard", "bulk"))
        with fleet.worker(stack, "slow", sim="--load-seconds=25 --decode-tps=50") as worker:
            worker.wait_for("loading")

            assert any(node.startswith("slow@") for node in celery_ping(stack))
            with stack.flower() as flower:
                shown = flower.get("/api/sluice/workers").json()
            assert "loading" in json.dumps(shown)
            assert worker.is_in("loading"), "the checks took longer than the load"
            assert (fleet.waiting(stack), fleet.leases(stack)) == (50, 0)
            assert {row["tier"]: row["jobs"] for row in fleet.queues(stack) if row["jobs"]} == {
                "standard": 25,
                "bulk": 25,
            }

            worker.wait_for("ready")
            finished = fleet.wait_until_finished(stack, ids)

    assert {job["status"] for job in finished} == {"succeeded"}
    assert 1 < most_at_once(finished) <= MAX_NUM_SEQS


def test_a_worker_whose_engine_cannot_load_ends_with_an_error_and_takes_nothing() -> None:
    with stacks.running("--workers", "0") as stack:
        [waiting] = fleet.submit(stack, 1)
        with fleet.worker(stack, "broken", sim="--no-such-option") as worker:
            until(lambda: worker.process.poll() is not None, seconds=90, what="the worker gives up")

            assert worker.process.returncode != 0
        job = fleet.job(stack, waiting)

    assert (job["status"], job["attempts"]) == ("queued", 0)
