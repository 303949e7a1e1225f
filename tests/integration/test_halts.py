import logging

import pytest

from inference import errors, fleet, halts, snapshot
from inference.halts import Action
from inference.models import QueueLimit, Worker, WorkerLimit
from tests import factories

QUEUE = f"{factories.MODEL}.bulk.long"


def test_a_pause_is_a_row_and_says_who_did_it(db: None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    [row] = halts.halt_queues(Action.PAUSE, [QUEUE], by="user ann")
    row.refresh_from_db()
    assert (row.is_paused, row.is_draining, row.halted_by) == (True, False, "user ann")
    assert row.halted_at is not None
    assert row.resumed_at is None
    assert f"pause of {QUEUE} by user ann" in caplog.text


def test_a_pause_keeps_what_else_is_set_for_the_queue(db: None) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=7, max_in_flight=3)
    [row] = halts.halt_queues(Action.PAUSE, [QUEUE], by="ann")
    assert (row.max_jobs, row.max_in_flight) == (7, 3)


def test_a_pause_of_what_is_paused_changes_nothing(db: None) -> None:
    [first] = halts.halt_queues(Action.PAUSE, [QUEUE], by="ann")
    [again] = halts.halt_queues(Action.PAUSE, [QUEUE], by="bob")
    assert (again.halted_by, again.halted_at) == ("ann", first.halted_at)


def test_a_resume_ends_pause_and_drain(db: None) -> None:
    for action in (Action.PAUSE, Action.DRAIN, Action.RESUME):
        [row] = halts.halt_queues(action, [QUEUE], by="ann")
    assert (row.is_paused, row.is_draining) == (False, False)
    assert row.resumed_at is not None
    assert row.resumed_at == row.halted_at


def test_the_end_of_a_queues_drain_is_not_the_end_of_a_pause(db: None) -> None:
    for action in (Action.DRAIN, Action.RESUME):
        [row] = halts.halt_queues(action, [QUEUE], by="ann")
    assert row.resumed_at is None


def test_a_worker_that_drains_was_held(db: None) -> None:
    for action in (Action.DRAIN, Action.RESUME):
        [row] = halts.halt_workers(action, ["worker-1@here"], by="ann")
    assert row.resumed_at is not None


def test_a_halt_is_in_the_limits_of_this_process_at_once(database: None) -> None:
    assert not snapshot.limits().of_queue(QUEUE).is_paused
    halts.halt_queues(Action.PAUSE, [QUEUE], by="ann")
    halts.halt_workers(Action.DRAIN, ["worker-1"], by="ann")
    limits = snapshot.limits()
    assert limits.of_queue(QUEUE).is_paused
    assert limits.of_worker("worker-1").is_halted
    assert not limits.of_worker("worker-2").is_halted


def test_a_halt_outlives_the_workers_row(db: None) -> None:
    fleet.report(factories.make_report(name="worker-1@here"))
    halts.halt_workers(Action.PAUSE, ["worker-1@here"], by="ann")
    fleet.report(factories.make_report(name="worker-1@here"))
    Worker.objects.all().delete()
    assert WorkerLimit.objects.get(worker="worker-1@here").is_paused


def test_a_pattern_means_queues(db: None) -> None:
    assert halts.match_queues(QUEUE) == [QUEUE]
    assert len(halts.match_queues("*.bulk.*")) == 3


def test_a_worker_is_meant_with_or_without_its_host(db: None) -> None:
    fleet.report(factories.make_report(name="worker-1@here"))
    halts.halt_workers(Action.PAUSE, ["worker-2@gone"], by="ann")
    assert halts.match_workers("worker-1") == halts.match_workers("worker-1@here") == ["worker-1@here"]
    assert halts.match_workers("worker-*") == ["worker-1@here", "worker-2@gone"]


def test_a_name_of_nothing_is_told_what_there_is(db: None) -> None:
    with pytest.raises(errors.NotFound, match=f"no queue 'nope'; there are: .*{QUEUE}"):
        halts.match_queues("nope")
    with pytest.raises(errors.NotFound, match="no worker 'nope'; there are: none"):
        halts.match_workers("nope")
