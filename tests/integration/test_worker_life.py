"""A worker process from start to stop: claims only when ready, drains, gives back, follows the tables."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from inference import tasks
from inference.broker import CHUNK, END, Broker
from inference.models import Job, ServedModel, Tier
from inference.states import JobEventKind, JobStatus, WorkerState
from tests import factories
from tests.integration import worker_processes
from tests.integration.worker_processes import (
    SLOW,
    Fleet,
    all_are,
    answers_pings,
    ask,
    events,
    queue,
    running,
    submit,
)
from tests.waiting import until

fleet = worker_processes.fleet


def test_nothing_is_claimed_while_the_engine_loads_and_never_more_than_it_holds_afterwards(
    fleet: Fleet, sluice: Broker
) -> None:
    ids = submit(40, output_tokens=4) + submit(10, output_tokens=4, tier="bulk")
    worker = fleet.worker("loads", sim="--load-seconds 3600")
    worker.reaches(WorkerState.LOADING)
    answers_pings(fleet, worker)
    assert ask(fleet, "engine_state")[worker.name]["engine_state"] == "loading"
    assert (queue(sluice).jobs, queue(sluice).leases) == (40, 0)
    assert (queue(sluice, "bulk").jobs, queue(sluice, "bulk").leases) == (10, 0)
    worker.kill()
    fleet.worker("loaded", sim="--decode-tps 200")
    all_are(ids, JobStatus.SUCCEEDED)
    assert most_at_once(ids) <= 32
    worker_processes.nothing_is_held(sluice)


def most_at_once(ids: list[UUID]) -> int:
    """The largest number of jobs that ran at one moment, by their rows."""
    times = Job.objects.filter(id__in=ids).values_list("started_at", "finished_at")
    steps = sorted([(start, 1) for start, _ in times] + [(end, -1) for _, end in times])
    most = now = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most


def test_a_stream_is_passed_on_and_its_answer_is_on_record(fleet: Fleet, sluice: Broker) -> None:
    fleet.ready()
    [job_id] = submit(1, output_tokens=5, streamed=True)
    all_are([job_id], JobStatus.SUCCEEDED)
    until(lambda: sluice.stream(job_id)[-1:] and sluice.stream(job_id)[-1].kind == JobStatus.SUCCEEDED)
    heard = sluice.stream(job_id)
    output = b"".join(event.data for event in heard if event.kind == CHUNK)
    assert [event.kind for event in heard[-2:]] == [END, JobStatus.SUCCEEDED]
    assert output.endswith(b"data: [DONE]\n\n")
    assert b'"usage"' not in output
    job = Job.objects.get(id=job_id)
    assert job.output_tokens == 5
    assert job.finish_reason == "length"
    assert '"object":"chat.completion"' in job.result
    assert job.started_at
    assert job.first_token_at
    assert job.finished_at
    assert job.started_at < job.first_token_at <= job.finished_at


def test_a_drain_finishes_what_runs_leaves_what_waits_and_answers_meanwhile(fleet: Fleet, sluice: Broker) -> None:
    ServedModel.objects.update(max_num_seqs=4)
    worker = fleet.ready(sim=SLOW)
    ids = submit(6, output_tokens=120)
    until(lambda: running(ids) == 4)
    worker.signal(signal.SIGTERM)
    worker.reaches(WorkerState.DRAINING)
    answers_pings(fleet, worker)
    assert worker.ends() == 0
    assert worker_processes.statuses(ids) == {"queued": 2, "succeeded": 4}
    assert events(ids, JobEventKind.RUNNING) == 4
    assert (queue(sluice).jobs, queue(sluice).leases) == (2, 0)
    assert worker.row
    assert worker.row.state == WorkerState.STOPPED


def test_a_second_signal_gives_everything_back_at_once_at_no_cost_of_an_attempt(
    fleet: Fleet, sluice: Broker
) -> None:
    worker = fleet.ready(sim=SLOW)
    ids = submit(3, output_tokens=2000)
    until(lambda: running(ids) == 3)
    worker.signal(signal.SIGINT)
    worker.reaches(WorkerState.DRAINING)
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    assert worker_processes.statuses(ids) == {"queued": 3}
    assert set(Job.objects.filter(id__in=ids).values_list("attempts", flat=True)) == {0}
    assert (queue(sluice).jobs, queue(sluice).leases) == (3, 0)
    assert events(ids, JobEventKind.RELEASED) == 3


@contextlib.contextmanager
def listening(fleet: Fleet) -> Iterator[list[dict[str, Any]]]:
    """Hear what Flower would, in a thread."""
    heard: list[dict[str, Any]] = []
    with fleet.celery.connection_for_read() as connection:
        receiver: Any = fleet.celery.events.Receiver(connection, handlers={"*": heard.append})
        thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": False})
        thread.start()
        yield heard
        receiver.should_stop = True
        thread.join()


def test_flower_hears_of_jobs_and_of_the_engines_state_and_never_of_a_prompt(fleet: Fleet, sluice: Broker) -> None:
    with listening(fleet) as heard:
        worker = fleet.ready()
        [job_id] = submit(1, content="a secret prompt")
        until(lambda: any(event["type"] == "task-succeeded" for event in heard))
        until(lambda: any(event.get("engine_state") == "ready" for event in heard))
    kinds = [event["type"] for event in heard if event.get("uuid", "").startswith(str(job_id))]
    assert kinds == ["task-received", "task-started", "task-succeeded"]
    assert {event["hostname"] for event in heard} == {worker.name}
    assert "secret" not in str(heard)
    assert ask(fleet, "active") == ask(fleet, "reserved") == {worker.name: []}


def test_a_new_tier_is_served_without_a_restart(fleet: Fleet, sluice: Broker) -> None:
    fleet.ready()
    Tier.objects.create(name="gold", weight=1000)
    ids = submit(2, tier="gold")
    all_are(ids, JobStatus.SUCCEEDED)


def test_a_worker_serves_only_the_queues_it_is_given(fleet: Fleet, sluice: Broker) -> None:
    fleet.ready("worker-1", "--serve", "*.bulk.*")
    standard = submit(1)
    bulk = submit(1, tier="bulk")
    all_are(bulk, JobStatus.SUCCEEDED)
    assert worker_processes.statuses(standard) == {"queued": 1}


def test_the_control_worker_runs_tasks_with_stock_celery_and_drains(fleet: Fleet, sluice: Broker) -> None:
    control = fleet.control()
    answers_pings(fleet, control)
    task: Any = tasks.prune_workers
    with fleet.celery.connection_for_write() as connection:
        task.apply_async(connection=connection)
    until(lambda: f"Task {tasks.prune_workers.name}" in (text := control.log.read_text()) and "succeeded" in text)
    [stats] = until(lambda: [s for s in sluice.stats(["control"]) if s.jobs == s.leases == 0])
    assert stats.jobs == 0
    assert ask(fleet, "stats")[control.name]["pool"]["max-concurrency"] == 2
    assert ask(fleet, "shutdown")[control.name] == {"ok": "draining"}
    assert control.ends() == 0


def test_a_job_larger_than_the_whole_cache_is_failed_instead_of_blocking_its_queue(
    fleet: Fleet, sluice: Broker
) -> None:
    fleet.ready(sim="--max-model-len 512 --kv-tokens 512 --decode-tps 20000")
    [large] = submit(1, prompt_tokens=400, expected_tokens=400)
    [small] = submit(1)
    all_are([small], JobStatus.SUCCEEDED)
    all_are([large], JobStatus.FAILED)
    assert "KV cache" in Job.objects.get(id=large).error_message
    assert factories.REQUEST not in Job.objects.get(id=large).error_message
