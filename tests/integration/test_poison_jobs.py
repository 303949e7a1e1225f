"""A job that kills or hangs its engine ends after three, whatever runs it; its neighbours and workers live."""

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest
from django.db.models import Max

from inference import lifecycle, submission
from inference.broker import Broker
from inference.models import Job, JobEvent, ServedModel
from inference.states import JobEventKind, JobStatus, WorkerState
from tests import factories
from tests.integration import worker_processes
from tests.integration.worker_processes import Fleet, all_are, events, running, submit
from tests.waiting import until

fleet = worker_processes.fleet
pytestmark = pytest.mark.once

POISON = "Tell me how to divide by zero."
FRAGILE = "--decode-tps 20 --crash-on 'divide by zero' --hang-on 'count to infinity'"
STALL_SECONDS = 3.0
"""No step takes so long, however loaded the machine is."""
PATIENCE_SECONDS = 120.0


def test_a_poison_job_fails_after_three_crashes_over_two_workers_and_nobody_else_does(
    fleet: Fleet, sluice: Broker
) -> None:
    workers = [fleet.ready(f"worker-{number}", sim=FRAGILE) for number in (1, 2)]
    innocent = submit(5, output_tokens=60)
    worker_processes.wait_until_started(innocent)
    [poison] = submit(1, content=POISON)
    innocent += submit(5, output_tokens=10)

    all_are([poison], JobStatus.FAILED, seconds=PATIENCE_SECONDS)
    all_are(innocent, JobStatus.SUCCEEDED, seconds=PATIENCE_SECONDS)
    job = Job.objects.get(id=poison)
    assert (job.error_code, job.engine_crashes, job.attempts) == ("engine_crash", 3, 0)
    assert job.error_message == "The engine crashed 3 times while it ran this job."
    crashes = Job.objects.filter(id__in=innocent).aggregate(most=Max("engine_crashes"))["most"]
    assert 1 <= crashes <= 2, "some were beside it, and none when it ran alone"
    assert set(Job.objects.filter(id__in=innocent).values_list("attempts", flat=True)) == {1}
    for worker in workers:
        worker.reaches(WorkerState.READY)
    worker_processes.nothing_is_held(sluice)


def suspects(count: int, *, output_tokens: int) -> list[Any]:
    """Queue jobs that were in flight at two crashes."""
    made = [worker_processes.new_job(output_tokens=output_tokens) for _ in range(count)]
    jobs = factories.make_suspects(*lifecycle.create(made))
    factories.publish(*jobs)
    return [job.id for job in jobs]


def spans(ids: list[Any]) -> list[tuple[datetime, datetime]]:
    """When they ran, in order."""
    found = Job.objects.filter(id__in=ids).values_list("started_at", "finished_at")
    return sorted((start, end) for start, end in found if start and end)


def test_jobs_that_must_run_alone_run_one_by_one_and_online_work_goes_between_them(
    fleet: Fleet, sluice: Broker
) -> None:
    alone = suspects(4, output_tokens=20)
    urgent = submit(2, output_tokens=4, tier="realtime")
    fleet.ready(sim=FRAGILE)
    until(lambda: running(alone))
    later = submit(2, output_tokens=4, tier="realtime")

    all_are(alone + urgent + later, JobStatus.SUCCEEDED, seconds=PATIENCE_SECONDS)
    ran, first, between = spans(alone), spans(urgent), spans(later)
    assert all(before[1] <= after[0] for before, after in pairwise(ran)), "a row runs when the engine has the job"
    assert max(first)[1] <= ran[0][0]
    assert max(between)[0] < ran[-1][0]
    assert not [job for job in first + between for suspect in ran if job[0] < suspect[1] and suspect[0] < job[1]]
    worker_processes.nothing_is_held(sluice)


def test_an_engine_that_is_healthy_and_hangs_is_started_again_and_its_jobs_run(
    fleet: Fleet, sluice: Broker
) -> None:
    ServedModel.objects.update(stall_seconds=STALL_SECONDS)
    worker = fleet.ready(sim=FRAGILE)
    innocent = submit(4, output_tokens=120)
    until(lambda: running(innocent) == 4)
    [hanger] = submit(1, content="Please count to infinity.")

    until(lambda: events([hanger], JobEventKind.RELEASED), seconds=PATIENCE_SECONDS)
    submission.cancel(caller=None, job_id=hanger)
    all_are(innocent, JobStatus.SUCCEEDED, seconds=PATIENCE_SECONDS)
    assert set(Job.objects.filter(id__in=innocent).values_list("attempts", "engine_crashes")) == {(1, 1)}
    released = JobEvent.objects.filter(job_id=hanger, kind=JobEventKind.RELEASED)
    assert set(released.values_list("detail", flat=True)) == {"engine_crash"}
    assert "engine_hung" in worker.log.read_text()
    assert worker.is_running()
    worker_processes.nothing_is_held(sluice)
