"""Queues that are full, draining or paused, and many jobs at once."""

import threading

import pytest
from django.db import connection

from inference import errors, halts, snapshot, submission
from inference.broker import Broker
from inference.models import Job, QueueLimit
from tests import factories
from tests.integration import submitting
from tests.integration.submitting import LONG_QUEUE, QUEUE, assert_nothing_left, submit, waiting

model_files = submitting.model_files


def test_a_full_queue_refuses_with_limit_current_value_and_time(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=2)
    submit()
    submit()
    with pytest.raises(errors.Rejected) as caught:
        submit()

    assert "at most 2 waiting jobs; 2 wait or have room kept for them, 1 more" in caught.value.message
    assert caught.value.retry_after_seconds == 1
    assert (Job.objects.count(), waiting(sluice)) == (2, 2)


def test_a_cap_that_an_admin_raises_holds_at_once(sluice: Broker) -> None:
    cap = QueueLimit.objects.create(queue=QUEUE, max_jobs=0)
    with pytest.raises(errors.Rejected):
        submit()
    cap.max_jobs = 1
    cap.save()
    snapshot.forget()

    assert submit().status == "queued"


def test_a_draining_queue_takes_no_more_and_says_until_when(sluice: Broker) -> None:
    waits = submit()
    halts.halt_queues(halts.Action.DRAIN, [QUEUE], by="ann")
    with pytest.raises(errors.Unavailable) as refused:
        submit()
    assert (refused.value.code, refused.value.retry_after_seconds) == ("queue_draining", 30.0)
    assert f"queue {QUEUE} is draining" in refused.value.message
    assert sluice.held([waits.id]) == {waits.id}
    assert Job.objects.count() == 1


def test_a_paused_queue_takes_jobs(sluice: Broker) -> None:
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="ann")
    assert sluice.held([submit().id])


def test_a_draining_queue_takes_no_job_back_by_hand(sluice: Broker) -> None:
    job = submit()
    submission.cancel(caller=None, job_id=job.id)
    halts.halt_queues(halts.Action.DRAIN, [QUEUE], by="ann")
    with pytest.raises(errors.Unavailable, match="draining"):
        submission.retry(caller=None, job_id=job.id)


def test_many_are_accepted_together(sluice: Broker) -> None:
    items = [factories.make_submission(body=factories.make_chat("word " * n)) for n in (1, 3000, 2)]
    jobs = submission.submit_many(caller=factories.make_caller(), items=items)

    assert [job.prompt_tokens for job in jobs] == [3, 3002, 4]
    assert (waiting(sluice), waiting(sluice, LONG_QUEUE)) == (2, 1)


def test_of_many_a_bad_one_is_named_and_none_is_accepted(sluice: Broker) -> None:
    items = [factories.make_submission() for _ in range(3)]
    items[2] = factories.make_submission(body=factories.make_chat(max_tokens=0))
    with pytest.raises(errors.InvalidRequest) as caught:
        submission.submit_many(caller=factories.make_caller(), items=items)

    assert caught.value.param == "jobs[2].max_tokens"
    assert caught.value.message.startswith("jobs[2]: max_tokens")
    assert_nothing_left(sluice)


def test_of_many_none_is_accepted_if_one_of_their_queues_is_full(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=LONG_QUEUE, max_jobs=0)
    items = [factories.make_submission(body=factories.make_chat("word " * n)) for n in (1, 3000)]
    with pytest.raises(errors.Rejected):
        submission.submit_many(caller=factories.make_caller(), items=items)

    assert_nothing_left(sluice)


@pytest.mark.parametrize("count", [0, 1001])
def test_a_bulk_is_bounded(sluice: Broker, count: int) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        submission.submit_many(caller=factories.make_caller(), items=[factories.make_submission()] * count)

    assert f"from 1 to 1000, not {count}" in caught.value.message


def test_callers_at_once_never_overshoot_the_cap(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=10)
    snapshot.limits()
    together, outcomes = threading.Barrier(8), []

    def submit_five() -> None:
        together.wait()
        for _ in range(5):
            try:
                outcomes.append(submit().status)
            except errors.Rejected:
                outcomes.append("rejected")
        connection.close()

    threads = [threading.Thread(target=submit_five) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (outcomes.count("queued"), outcomes.count("rejected")) == (10, 30)
    assert (Job.objects.count(), waiting(sluice)) == (10, 10)
