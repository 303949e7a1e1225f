"""Nothing is pulled before the model is ready; afterwards never more than the engine takes."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

from django.conf import settings

from inference.states import TERMINAL
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until

MAX_NUM_SEQS = 32
"""Of the seeded model."""


def answers_ping(stack: Stack, node: str) -> bool:
    """Whether the node answers `celery inspect ping`."""
    words = ("inspect", "ping", "--json", "--destination", node, "--timeout", "5")
    command = [sys.executable, "-m", "celery", "-A", "project", *words]
    done = subprocess.run(
        command, cwd=settings.BASE_DIR, env=stack.environment(), capture_output=True, text=True, check=False
    )
    return done.returncode == 0 and node in done.stdout


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


def test_jobs_wait_in_their_queues_while_an_engine_loads_and_all_succeed_once_one_is_ready(bare: Stack) -> None:
    ids = fleet.submit(bare, 50, tiers=("standard", "bulk"))
    with fleet.worker(bare, "loads", sim="--load-seconds=3600") as worker:
        worker.wait_for("loading")
        node = fleet.registry(bare)["loads"]["name"]
        until(lambda: answers_ping(bare, node), seconds=60, what="Celery's ping is answered")
        with bare.flower() as flower:
            shown = flower.get("/api/sluice/workers").json()
        assert "loading" in json.dumps(shown)
        assert (fleet.waiting(bare), fleet.leases(bare)) == (50, 0)
        assert {row["tier"]: row["jobs"] for row in fleet.queues(bare) if row["jobs"]} == {
            "standard": 25,
            "bulk": 25,
        }
    with fleet.worker(bare, "loaded", sim="--decode-tps=50"):
        finished = fleet.wait_until_finished(bare, ids, seconds=90)

    assert {job["status"] for job in finished} == {"succeeded"}
    assert 1 < most_at_once(finished) <= MAX_NUM_SEQS


def test_a_worker_whose_engine_cannot_load_ends_with_an_error_and_takes_nothing(bare: Stack) -> None:
    [waiting] = fleet.submit(bare, 1)
    with fleet.worker(bare, "broken", sim="--no-such-option") as worker:
        until(lambda: worker.process.poll() is not None, seconds=90, what="the worker gives up")

        assert worker.process.returncode != 0
    job = fleet.job(bare, waiting)
    with bare.client() as client:
        client.post(f"/api/v1/jobs/{waiting}/cancel/").raise_for_status()

    assert (job["status"], job["attempts"]) == ("queued", 0)
