"""What the life cycle leaves in the database."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from inference import fleet, lifecycle, snapshot
from inference.lifecycle import statements
from inference.models import Job, JobEvent, Tier
from inference.states import Endpoint, FailureReason, JobStatus, ReleaseReason
from tests import factories


def kinds(job_id: uuid.UUID) -> list[str]:
    return list(JobEvent.objects.filter(job=job_id).values_list("kind", flat=True))


def test_a_new_job_is_queued_with_an_event(db: None) -> None:
    job = factories.make_job()
    job.refresh_from_db()

    assert (job.status, job.attempts, kinds(job.id)) == ("queued", 0, ["queued"])


def test_a_started_job_comes_with_its_work(db: None) -> None:
    job = factories.make_job(request='{"prompt": "Hi"}', endpoint=Endpoint.COMPLETIONS, streamed=True)
    [applied] = lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-1")])

    assert applied.moved
    assert applied.status is JobStatus.RUNNING
    assert applied.work is not None
    assert (applied.work.endpoint, applied.work.request) == (Endpoint.COMPLETIONS, '{"prompt": "Hi"}')
    assert (applied.work.streamed, applied.work.attempt, applied.work.tier) == (True, 1, "standard")


def test_work_never_shows_its_prompt_in_a_log_line(db: None) -> None:
    job = factories.make_job(request='{"prompt": "a secret"}')
    [applied] = lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-1")])

    assert "a secret" not in repr(applied)
    assert "a secret" not in repr(applied.work)


def test_a_second_claim_does_not_start_a_running_job(db: None) -> None:
    job, token = factories.make_running_job()
    [applied] = lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-2")])
    job.refresh_from_db()

    assert (applied.moved, applied.status, applied.work) == (False, JobStatus.RUNNING, None)
    assert (job.claim_id, job.worker, job.attempts) == (token.claim_id, "worker-1", 1)


def test_a_start_asked_again_under_its_own_claim_is_under_way_and_not_counted_twice(db: None) -> None:
    job, token = factories.make_running_job()
    [applied] = lifecycle.apply([lifecycle.Start(token, "worker-1")])
    job.refresh_from_db()

    assert applied.moved
    assert applied.work is not None
    assert (job.attempts, kinds(job.id)) == (1, ["queued", "running"])


def test_a_finish_writes_the_answer_and_one_event(db: None) -> None:
    job, token = factories.make_running_job()
    [applied] = lifecycle.apply([factories.make_success(token, result='{"id": "x"}')])
    job.refresh_from_db()

    assert (applied.moved, job.status, job.result) == (True, "succeeded", '{"id": "x"}')
    assert (job.output_tokens, job.finish_reason, job.is_finished) == (7, "stop", True)
    assert kinds(job.id) == ["queued", "running", "succeeded"]


def test_a_second_finish_moves_nothing_and_says_where_the_job_is(db: None) -> None:
    job, token = factories.make_running_job()
    lifecycle.apply([factories.make_success(token)])
    [again] = lifecycle.apply([lifecycle.Fail(token, FailureReason.ENGINE_ERROR, "too late")])

    assert (again.moved, again.status) == (False, JobStatus.SUCCEEDED)
    assert kinds(job.id) == ["queued", "running", "succeeded"]


def test_a_worker_that_lost_its_claim_cannot_finish(db: None) -> None:
    job, old = factories.make_running_job()
    lifecycle.apply([lifecycle.Release(old, ReleaseReason.LEASE_EXPIRED)])
    new = factories.make_token(job.id)
    lifecycle.apply([lifecycle.Start(new, "worker-2")])

    [late] = lifecycle.apply([factories.make_success(old, result='"late"')])
    [right] = lifecycle.apply([factories.make_success(new, result='"right"')])
    job.refresh_from_db()

    assert (late.moved, late.status, right.moved) == (False, JobStatus.RUNNING, True)
    assert (job.result, job.attempts, job.worker) == ('"right"', 2, "worker-2")


def test_a_released_job_can_start_again_without_losing_an_attempt(db: None) -> None:
    job, token = factories.make_running_job()
    [released] = lifecycle.apply([lifecycle.Release(token, ReleaseReason.DRAIN)])
    lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-2")])
    job.refresh_from_db()

    assert (released.status, job.attempts) == (JobStatus.QUEUED, 1)
    assert kinds(job.id) == ["queued", "running", "released", "running"]


def test_a_tiers_attempts_are_edited_live(db: None) -> None:
    Tier.objects.filter(name="standard").update(max_attempts=1)
    snapshot.forget()
    _, token = factories.make_running_job()
    _, patient = factories.make_running_job(tier="bulk")
    lost = [lifecycle.Release(each, ReleaseReason.LEASE_EXPIRED) for each in (token, patient)]

    assert [applied.status for applied in lifecycle.apply(lost)] == [JobStatus.FAILED, JobStatus.QUEUED]


def test_the_third_death_of_its_worker_fails_a_job(db: None) -> None:
    job, token = factories.make_running_job(attempts=3)
    [applied] = lifecycle.apply([lifecycle.Release(token, ReleaseReason.LEASE_EXPIRED)])
    job.refresh_from_db()

    assert (applied.moved, applied.status) == (True, JobStatus.FAILED)
    assert (job.error_code, job.attempts) == ("attempts_exhausted", 3)
    assert kinds(job.id).count("rescued") == 2


def test_events_name_the_claim_the_worker_and_the_attempt(db: None) -> None:
    job, token = factories.make_running_job()
    lifecycle.apply([lifecycle.Release(token, ReleaseReason.DRAIN)])
    event = JobEvent.objects.get(job=job, kind="released")

    assert (event.claim_id, event.worker, event.attempt) == (token.claim_id, "worker-1", 1)
    assert event.detail == "drain"


def test_changes_of_one_job_in_one_commit_act_one_after_the_other(db: None) -> None:
    job = factories.make_job()
    token = factories.make_token(job.id)
    applied = lifecycle.apply(
        [
            lifecycle.Start(token, "worker-1"),
            factories.make_success(token),
            lifecycle.Cancel(job.id),
            lifecycle.Release(token, ReleaseReason.DRAIN),
        ]
    )
    job.refresh_from_db()

    assert [a.moved for a in applied] == [True, True, False, False]
    assert [a.status for a in applied] == ["running", "succeeded", "succeeded", "succeeded"]
    assert (job.status, kinds(job.id)) == ("succeeded", ["queued", "running", "succeeded"])


def test_a_job_that_is_gone_is_told_apart(db: None) -> None:
    token = factories.make_token(uuid.uuid4())
    [applied] = lifecycle.apply([lifecycle.Start(token, "worker-1")])

    assert (applied.moved, applied.status) == (False, None)


def test_a_cancel_names_the_claim_that_must_be_aborted(db: None) -> None:
    job, token = factories.make_running_job()
    waiting = factories.make_job()
    running, queued = lifecycle.apply([lifecycle.Cancel(job.id, "by the client"), lifecycle.Cancel(waiting.id)])

    assert (running.moved, running.claim_id) == (True, token.claim_id)
    assert (queued.moved, queued.claim_id) == (True, None)
    assert JobEvent.objects.get(job=job, kind="cancelled").detail == "by the client"


def test_a_start_past_the_deadline_expires_the_job_while_a_worker_is_ready(db: None) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago))
    job = factories.make_job(created_at=long_ago)
    [applied] = lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-1")])
    job.refresh_from_db()

    assert (applied.moved, applied.status, applied.work) == (False, JobStatus.EXPIRED, None)
    assert (job.status, job.attempts, kinds(job.id)) == ("expired", 0, ["queued", "expired"])


def test_a_commit_that_fails_leaves_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    job = factories.make_job()

    def refuse(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no events today")

    monkeypatch.setattr(statements, "insert_events", refuse)
    with pytest.raises(RuntimeError):
        lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-1")])
    job.refresh_from_db()

    assert (job.status, kinds(job.id)) == ("queued", ["queued"])


def test_sixty_four_starts_take_a_handful_of_statements(
    db: None, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    jobs = lifecycle.create([factories.make_new_job() for _ in range(64)])
    starts = [lifecycle.Start(factories.make_token(job.id), "worker-1") for job in jobs]

    with django_assert_max_num_queries(8):  # type: ignore[attr-defined]
        applied = lifecycle.apply(starts)

    assert all(a.moved for a in applied)
    assert Counter(Job.objects.values_list("status", flat=True)) == {"running": 64}


def test_of_two_threads_that_finish_one_job_exactly_one_wins(database: None) -> None:
    job, token = factories.make_running_job()
    changes = [
        factories.make_success(token),
        lifecycle.Fail(token, FailureReason.ENGINE_ERROR, "no"),
        lifecycle.Cancel(job.id),
        lifecycle.Release(token, ReleaseReason.DRAIN),
    ]
    answers: list[lifecycle.Applied] = []
    together = threading.Barrier(len(changes))

    def finish(change: lifecycle.Change) -> None:
        together.wait()
        answers.extend(lifecycle.apply([change]))
        connection.close()

    threads = [threading.Thread(target=finish, args=[change]) for change in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = kinds(job.id)

    # A release may be followed by the cancel, which ends queued jobs too; no other pair can both win.
    won = [a for a in answers if a.moved]
    assert len(won) == 1 or events[2:] == ["released", "cancelled"]
    assert len(events) == 2 + len(won)
    assert len(set(events) & {"succeeded", "failed", "cancelled"}) <= 1


def test_threads_that_claim_the_same_jobs_start_each_once(database: None) -> None:
    jobs = lifecycle.create([factories.make_new_job() for _ in range(60)])
    together = threading.Barrier(4)
    answers: list[lifecycle.Applied] = []

    def claim(worker: str) -> None:
        starts = [lifecycle.Start(factories.make_token(job.id), worker) for job in jobs]
        if worker in {"worker-1", "worker-3"}:
            starts.reverse()  # locks taken in the order asked for would be a deadlock
        together.wait()
        answers.extend(lifecycle.apply(starts))
        connection.close()

    threads = [threading.Thread(target=claim, args=[f"worker-{i}"]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Counter(a.job_id for a in answers if a.moved) == {job.id: 1 for job in jobs}
    assert JobEvent.objects.filter(kind="running").count() == 60
