"""What a worker survives, and what it leaves to others: every job ends once, whatever dies."""

import os
import signal

import pytest
import redis

from inference import control, submission
from inference.broker import INTERRUPTED, Broker
from inference.models import Job, JobEvent
from inference.states import JobEventKind, JobStatus, WorkerState
from tests.integration import worker_processes
from tests.integration.worker_processes import (
    LEASE_SECONDS,
    SLOW,
    Fleet,
    all_are,
    ask,
    events,
    queue,
    running,
    submit,
)
from tests.waiting import until
from workers import process_tree

fleet = worker_processes.fleet
RESCUE_SECONDS = LEASE_SECONDS + 10
"""A lease; the rest is for a machine that runs other tests."""


def engine_child(engine: set[int]) -> int:
    """The simulated engine itself, below its shim."""
    parents = {process.pid: process.parent for process in process_tree.processes()}
    [child] = [pid for pid in engine if parents.get(pid) in engine]
    return child


@pytest.mark.parametrize("command", ["revoke", "terminate"])
def test_a_running_job_is_cancelled_by_its_celery_id_and_leaves_the_engine(
    fleet: Fleet, sluice: Broker, command: str
) -> None:
    worker = fleet.ready(sim=SLOW)
    [job_id] = submit(1, output_tokens=2000)
    until(lambda: running([job_id]))
    claim_id = Job.objects.get(id=job_id).claim_id
    answer = ask(fleet, command, task_id=f"{job_id}:{claim_id}", signal="SIGTERM")
    assert answer[worker.name] == {"ok": "cancelling 1 jobs"}
    until(lambda: ask(fleet, "engine_state")[worker.name]["in_flight"] == 0)
    assert Job.objects.get(id=job_id).status == JobStatus.CANCELLED
    worker_processes.nothing_is_held(sluice)


def test_a_cancel_that_no_broadcast_tells_of_is_told_by_the_next_renewal(
    fleet: Fleet, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "abort", lambda *_: None)
    fleet.ready(sim=SLOW)
    [job_id] = submit(1, output_tokens=2000, streamed=True)
    until(lambda: running([job_id]))
    submission.cancel(caller=None, job_id=job_id)
    worker_processes.nothing_is_held(sluice)
    assert events([job_id], JobEventKind.CANCELLED) == 1


def test_an_engine_that_is_killed_costs_no_attempt_and_its_jobs_finish(fleet: Fleet, sluice: Broker) -> None:
    worker = fleet.ready(sim=SLOW)
    plain = submit(3, output_tokens=120)
    [streamed] = submit(1, output_tokens=120, streamed=True)
    ids = [*plain, streamed]
    until(lambda: running(ids) == 4 and sluice.stream(streamed))
    os.kill(engine_child(worker.engine()), signal.SIGKILL)
    all_are(ids, JobStatus.SUCCEEDED)
    assert events(ids, JobEventKind.RELEASED) == 4
    assert set(Job.objects.filter(id__in=ids).values_list("attempts", flat=True)) == {1}
    assert (
        Job.objects.get(id=streamed).engine_crashes == 1
    )  # of the others, a call may not have reached the engine
    assert INTERRUPTED in [event.kind for event in sluice.stream(streamed)]


def test_a_killed_worker_takes_its_engine_along_and_another_runs_its_jobs_once(
    fleet: Fleet, sluice: Broker
) -> None:
    first = fleet.ready("worker-1", sim=SLOW)
    ids = submit(6, output_tokens=2000)
    until(lambda: running(ids) == 6)
    second = fleet.ready("worker-2")
    engine = first.engine()
    assert len(engine) >= 2
    first.signal(signal.SIGKILL)
    rescued = Job.objects.filter(id__in=ids, worker=second.name)
    until(lambda: rescued.count() == 6, seconds=RESCUE_SECONDS, what="the other has them")
    all_are(ids, JobStatus.SUCCEEDED)
    until(lambda: not engine & {process.pid for process in process_tree.processes()})
    assert events(ids, JobEventKind.SUCCEEDED) == 6
    assert events(ids, JobEventKind.RESCUED) == 6
    assert set(Job.objects.filter(id__in=ids).values_list("attempts", flat=True)) == {2}
    worker_processes.nothing_is_held(sluice)


def test_a_cut_connection_loses_nothing_and_runs_nothing_twice(
    fleet: Fleet, sluice: Broker, redis_client: redis.Redis
) -> None:
    worker = fleet.ready(sim=SLOW)
    ids = submit(40, output_tokens=40)
    until(lambda: events(ids, JobEventKind.RUNNING) >= 30)  # of 32 slots some are reserved
    mine = str(redis_client.client_id())
    for client in redis_client.client_list():
        if client["id"] != mine:
            redis_client.client_kill_filter(_id=client["id"])
    all_are(ids, JobStatus.SUCCEEDED)
    assert events(ids, JobEventKind.RUNNING) == 40
    assert set(Job.objects.filter(id__in=ids).values_list("attempts", flat=True)) == {1}
    worker_processes.nothing_is_held(sluice)
    assert worker.is_running()


def test_a_redis_that_forgot_everything_gets_its_leases_back(
    fleet: Fleet, sluice: Broker, redis_client: redis.Redis
) -> None:
    fleet.ready(sim=SLOW)
    ids = submit(3, output_tokens=120)
    until(lambda: running(ids) == 3)
    redis_client.delete(*redis_client.scan_iter(f"{sluice.prefix}*"))
    until(lambda: queue(sluice).leases == 3)
    all_are(ids, JobStatus.SUCCEEDED)
    assert set(JobEvent.objects.filter(job_id__in=ids).values_list("kind", flat=True)) == {
        JobEventKind.QUEUED,
        JobEventKind.RUNNING,
        JobEventKind.SUCCEEDED,
    }
    worker_processes.nothing_is_held(sluice)


def test_a_worker_whose_model_cannot_be_served_does_not_start(fleet: Fleet) -> None:
    worker = fleet.worker("worker-1", "--model", "gpt-9")
    assert worker.ends() != 0
    assert "gpt-9" in worker.log.read_text()
    assert worker.row is None or worker.row.state != WorkerState.READY


def test_those_who_follow_a_job_hear_that_it_runs(fleet: Fleet, sluice: Broker) -> None:
    [job_id] = submit(1, output_tokens=2)
    sluice.watch(job_id, "reader")
    fleet.ready()
    all_are([job_id], JobStatus.SUCCEEDED)
    until(lambda: [e.kind for e in sluice.stream(job_id)] == [JobStatus.RUNNING, JobStatus.SUCCEEDED])
