"""What dies under running jobs: nothing is lost, nothing is done twice, nothing is left behind."""

import contextlib
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import psutil

from tests.acceptance import fleet, stacks
from tests.acceptance.audit import audit, kinds
from tests.acceptance.fleet import WorkerProcess
from tests.acceptance.stacks import Stack
from tests.waiting import PATIENCE_SECONDS, until

RESCUE_SECONDS = float(stacks.FAST["SLUICE_LEASE_SECONDS"]) + 10
"""A lease; the rest is for a machine that runs other tests."""


@contextlib.contextmanager
def workers(stack: Stack, *names: str, **env: str) -> Iterator[list[WorkerProcess]]:
    with contextlib.ExitStack() as all_of_them:
        started = [all_of_them.enter_context(fleet.worker(stack, name, sim=fleet.SLOW, env=env)) for name in names]
        for worker in started:
            worker.wait_for("ready")
        yield started


def test_kill_9_of_a_worker_loses_nothing_and_leaves_no_engine(bare: Stack) -> None:
    with workers(bare, "victim", "heir") as (victim, _):
        ids = fleet.submit(bare, 50, max_tokens=fleet.LASTING, ignore_eos=True)
        until(lambda: victim.running_sequences() > 0, what="the victim works")
        held = {job["id"] for job in fleet.jobs(bare, ids) if job["status"] == "running"}
        engine = victim.engine_processes()
        killed_at = datetime.now(UTC)
        victim.kill()

        finished = audit(bare, ids)

        assert held
        assert {job["status"] for job in finished} == {"succeeded"}
        rescued = [job for job in finished if "rescued" in kinds(job)]
        assert rescued
        assert {job["attempts"] for job in rescued} == {2}
        assert all(job["attempts"] == 1 for job in finished if job not in rescued)
        for job in rescued:
            [rescued_at] = [e["at"] for e in job["history"] if e["kind"] == "rescued"]
            assert (datetime.fromisoformat(rescued_at) - killed_at).total_seconds() <= RESCUE_SECONDS
        _, alive = psutil.wait_procs(engine, timeout=PATIENCE_SECONDS)
        assert not alive


def test_sigterm_lets_running_jobs_finish_and_claims_no_more(bare: Stack) -> None:
    with workers(bare, "leaver") as (leaver,):
        running = fleet.submit(bare, 8, max_tokens=fleet.LASTING, ignore_eos=True)
        fleet.wait_until_started(bare)
        engine = leaver.engine_processes()
        leaver.kill(signal.SIGTERM)
        until(lambda: "action=drain_begun" in leaver.log(), what="it drains")
        late = fleet.submit(bare, 2)

        assert leaver.process.wait(30) == 0
        finished = fleet.jobs(bare, running)
        assert [kinds(job) for job in finished] == [["queued", "running", "succeeded"]] * 8
        assert {job["status"] for job in fleet.jobs(bare, late)} == {"queued"}
        _, alive = psutil.wait_procs(engine, timeout=PATIENCE_SECONDS)
        assert not alive
    with workers(bare, "next"):
        assert {job["attempts"] for job in fleet.wait_until_finished(bare, late)} == {1}


def test_a_second_sigterm_gives_running_jobs_back_without_counting_the_attempt(bare: Stack) -> None:
    with workers(bare, "hurried", SLUICE_DRAIN_SECONDS="600") as (hurried,):
        ids = fleet.submit(bare, 4, max_tokens=6_000, ignore_eos=True)  # five minutes' work
        fleet.wait_until_started(bare)
        hurried.kill(signal.SIGTERM)
        hurried.wait_for("draining")
        hurried.kill(signal.SIGTERM)

        hurried.process.wait(60)
        given_back = fleet.jobs(bare, ids)
        assert {(job["status"], job["attempts"]) for job in given_back} == {("queued", 0)}
        assert {kinds(job)[-1] for job in given_back} == {"released"}
    with bare.client() as client:
        for job_id in ids:
            client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()
    assert fleet.waiting(bare) == 0


def test_kill_9_of_the_engine_costs_no_attempt_and_the_worker_starts_another(bare: Stack) -> None:
    with workers(bare, "keeper") as (keeper,):
        ids = fleet.submit(bare, 8, max_tokens=fleet.LASTING, ignore_eos=True)
        fleet.wait_until_started(bare)
        keeper.engine().kill()

        finished = audit(bare, ids)
        assert {(job["status"], job["attempts"]) for job in finished} == {("succeeded", 1)}
        assert {kind for job in finished for kind in kinds(job)} == {"queued", "running", "released", "succeeded"}
        keeper.wait_for("ready")


def test_no_lease_and_no_entry_is_left_when_all_is_finished(bare: Stack) -> None:
    with workers(bare, "tidy"):
        ids = fleet.submit(bare, 40, tiers=("realtime", "standard", "bulk"))
        audit(bare, ids)
