"""Flower's own API revokes and terminates jobs, and they stay cancelled whatever comes after."""

import os
import signal

from tests.acceptance import fleet
from tests.acceptance.audit import audit
from tests.acceptance.stacks import Stack
from tests.waiting import until

ENDLESS = 6_000
"""Tokens of a job that would run for five minutes."""
SLOTS = 2 * 31
"""Of two engines, without the one that each reserves for realtime."""


def revoke(stack: Stack, task_id: str, *, terminate: bool = True) -> None:
    """What Flower's button sends."""
    parameters = {"terminate": "true"} if terminate else {}
    with stack.flower() as flower:
        answer = flower.post(f"/api/task/revoke/{task_id}", params=parameters)
    assert answer.status_code == 200, answer.text


def celery_id(stack: Stack, job_id: str) -> str:
    """The id that Flower shows of a running job."""
    [claim] = [e["claim_id"] for e in fleet.job(stack, job_id)["history"] if e["kind"] == "running"]
    return f"{job_id}:{claim}"


def are(stack: Stack, ids: list[str], status: str) -> None:
    until(lambda: {job["status"] for job in fleet.jobs(stack, ids)} == {status}, seconds=40, what=f"all {status}")


def test_flower_revokes_what_runs_and_what_waits_and_both_stay_cancelled(broken: Stack) -> None:
    running = fleet.submit(broken, 4, max_tokens=ENDLESS, ignore_eos=True)
    are(broken, running, "running")
    filling = fleet.submit(broken, 70, max_tokens=ENDLESS, ignore_eos=True)
    until(lambda: fleet.count(broken, "running") == SLOTS, seconds=40, what="both engines are full")
    waiting = fleet.submit(broken, 3, tiers=("bulk",), max_tokens=ENDLESS, ignore_eos=True)
    are(broken, waiting, "queued")
    by_claim, by_job, unterminated, other = running
    old_id = celery_id(broken, by_claim)

    for task_id in (old_id, by_job, *waiting):
        revoke(broken, task_id)
    revoke(broken, unterminated, terminate=False)
    gone = [by_claim, by_job, unterminated, *waiting]
    are(broken, gone, "cancelled")

    with broken.client() as client:
        for job_id in (other, *filling):
            client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()
        client.post(f"/api/v1/jobs/{other}/retry/").raise_for_status()
    are(broken, [other], "running")
    revoke(broken, old_id)
    revoke(broken, waiting[0])
    os.kill(broken.pid("worker-1"), signal.SIGKILL)
    assert fleet.job(broken, other)["status"] in {"running", "queued"}, "it was no one's to cancel"
    revoke(broken, other)

    jobs = audit(broken, [*running, *filling, *waiting])
    assert {job["status"] for job in jobs} == {"cancelled"}
    assert {sum(e["kind"] == "cancelled" for e in job["history"]) for job in jobs if job["id"] in gone} == {1}


def test_a_revoked_job_can_be_retried_by_hand_and_then_runs(broken: Stack) -> None:
    [job_id] = fleet.submit(broken, 1, max_tokens=2 * fleet.LASTING, ignore_eos=True)
    are(broken, [job_id], "running")
    revoke(broken, celery_id(broken, job_id))
    are(broken, [job_id], "cancelled")
    with broken.client() as client:
        client.post(f"/api/v1/jobs/{job_id}/retry/").raise_for_status()

    [job] = audit(broken, [job_id])
    assert (job["status"], job["attempts"]) == ("succeeded", 1)
