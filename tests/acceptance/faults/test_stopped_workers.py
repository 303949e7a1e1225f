"""Workers that stop in their tracks: what they were handed is another's, and they notice when they go on."""

import os
import signal
from typing import Any

from tests.acceptance import fleet
from tests.acceptance.audit import audit, kinds
from tests.acceptance.followers import Follower
from tests.acceptance.stacks import Stack
from tests.waiting import until


def workers_of(job: dict[str, Any]) -> list[str]:
    """Who ran it, in order."""
    return [e["worker"].partition("@")[0] for e in job["history"] if e["kind"] == "running"]


def held_by(stack: Stack, worker: str, ids: list[str]) -> list[str]:
    """Jobs that it began and did not end, whoever took them since: the same ones once it is stopped."""
    began = [job for job in fleet.jobs(stack, ids) if workers_of(job)[:1] == [worker]]
    return [job["id"] for job in began if kinds(job)[2:3] != ["succeeded"]]


def test_what_is_published_to_a_worker_that_is_stopped_and_then_killed_is_run_by_another(broken: Stack) -> None:
    victim = broken.pid("worker-1")
    os.kill(victim, signal.SIGSTOP)
    ids = fleet.submit(broken, 12, tiers=("realtime", "standard"))
    os.kill(victim, signal.SIGKILL)

    jobs = audit(broken, ids)
    assert {(job["status"], job["attempts"]) for job in jobs} == {("succeeded", 1)}
    assert {tuple(kinds(job)) for job in jobs} == {("queued", "running", "succeeded")}


def test_a_worker_that_was_stopped_for_longer_than_its_lease_ends_nothing_that_another_took(broken: Stack) -> None:
    sleeper = broken.pid("worker-1")
    plain = fleet.submit(broken, 40, max_tokens=fleet.LASTING, ignore_eos=True)  # more than one worker takes
    streamed = fleet.submit(broken, 4, max_tokens=fleet.LASTING, ignore_eos=True, stream=True)
    followers = [Follower(broken, job_id) for job_id in streamed]
    for follower in followers:
        follower.start()
    fleet.wait_until_started(broken)
    os.kill(sleeper, signal.SIGSTOP)
    try:
        held = held_by(broken, "worker-1", [*plain, *streamed])
        assert held
        until(lambda: all(len(workers_of(job)) == 2 for job in fleet.jobs(broken, held)), seconds=60)
    finally:
        os.kill(sleeper, signal.SIGCONT)

    jobs = {job["id"]: job for job in audit(broken, [*plain, *streamed])}
    for follower in followers:
        follower.check(jobs[follower.job_id])
    again = {tuple(kinds(jobs[job_id])) for job_id in held}
    assert again == {("queued", "running", "rescued", "running", "succeeded")}
    assert {workers_of(jobs[job_id])[-1] for job_id in held} == {"worker-2"}
    assert {job["attempts"] for job_id, job in jobs.items() if job_id not in held} <= {1}
    assert fleet.engine_gauge(broken, "worker-1", "vllm:num_requests_running") == 0
