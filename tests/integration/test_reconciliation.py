"""Queue and rows are brought together again, whichever lost something."""

import uuid
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from inference import lifecycle, maintenance, reconciliation
from inference.broker import Broker
from inference.models import Job
from inference.reconciliation import Reconciled, Reconciler, Walk
from tests import factories
from tests.clock import Clock

LATER = timedelta(seconds=10)


def run(reconciler: Reconciler | None = None) -> Reconciled:
    return (reconciler or Reconciler()).run(timezone.now() + LATER)


def wipe(broker: Broker) -> None:
    for key in broker.client.scan_iter(f"{broker.prefix}*"):
        broker.client.delete(key)


def pass_by(broker: Broker, seconds: float) -> None:
    """Have claims without a lease be so for longer."""
    marks = f"{broker.prefix}missing"
    for token in broker.client.hkeys(marks):
        broker.client.hincrby(marks, token, -round(seconds * 1000))


def test_nothing_to_do_is_nothing_done(sluice: Broker) -> None:
    factories.publish(factories.make_job(), factories.make_job())

    assert run() == Reconciled()


def test_a_job_whose_publish_was_lost_is_queued_with_its_first_arrival(sluice: Broker) -> None:
    job = factories.make_job()

    assert run() == Reconciled(published=1)
    [stats] = sluice.stats([job.queue])
    assert (stats.jobs, stats.tokens) == (1, 30)
    assert stats.oldest_arrival_ms == round(job.created_at.timestamp() * 1000)


def test_a_job_on_its_way_is_not_overtaken(sluice: Broker) -> None:
    factories.make_job()

    assert Reconciler().run(timezone.now()) == Reconciled()


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_wrong_keeps_nothing_from_being_put_right(sluice: Broker, hours: int) -> None:
    lost, over = factories.make_job(), factories.make_job()
    factories.publish(over)
    lifecycle.apply([lifecycle.Cancel(over.id)])

    assert Reconciler().run(timezone.now() + timedelta(hours=hours)) == Reconciled(published=1, discarded=1)
    assert sluice.held([lost.id, over.id]) == {lost.id}


def test_after_a_wipe_all_that_wait_are_queued_again(sluice: Broker) -> None:
    factories.make_tenant("acme", weight=3)
    jobs = [factories.make_job(tenant=tenant) for tenant in ("default", "acme") for _ in range(5)]
    factories.publish(*jobs)
    wipe(sluice)

    assert run() == Reconciled(published=10)
    assert sluice.held([job.id for job in jobs]) == {job.id for job in jobs}


def test_more_rows_than_a_chunk_are_all_walked_over(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "CHUNK", 3)
    for _ in range(8):
        factories.make_job()
    reconciler = Reconciler()

    assert run(reconciler).published == 8
    assert reconciler.after == reconciliation.START


def test_a_run_that_took_its_time_stops_and_the_next_goes_on(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "CHUNK", 3)
    for _ in range(8):
        factories.make_job()
    Clock(step=3).replace_in("inference.reconciliation", monkeypatch)
    reconciler = Reconciler()

    first = run(reconciler).published
    assert 0 < first < 8
    while sluice.stats([Job.objects.all()[0].queue])[0].jobs < 8:
        assert run(reconciler).published


def test_a_leased_or_queued_job_is_never_queued_twice(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    factories.claim(sluice, job.queue)  # the start is not committed yet: the row still says queued

    assert run() == Reconciled()
    assert sluice.stats([job.queue])[0].jobs == 0


def test_an_entry_whose_row_is_finished_is_dropped_and_its_watchers_told(sluice: Broker) -> None:
    job = factories.make_job(streamed=True)
    factories.publish(job)
    sluice.watch(job.id, "web-1")
    token = factories.claim(sluice, job.queue).token
    lifecycle.apply([lifecycle.Start(token, "worker-1"), factories.make_success(token)])

    assert run() == Reconciled(discarded=1)
    assert sluice.held([job.id]) == set()
    assert [event.kind for event in sluice.stream(job.id)] == ["succeeded"]


def test_a_finish_whose_ack_is_on_its_way_is_left_alone(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    token = factories.claim(sluice, job.queue).token
    lifecycle.apply([lifecycle.Start(token, "worker-1"), factories.make_success(token)])

    assert Reconciler().run(timezone.now()) == Reconciled()
    assert sluice.ack(token, status="succeeded")


def test_a_cancel_that_redis_never_heard_of_takes_the_entry_out(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    lifecycle.apply([lifecycle.Cancel(job.id)])

    assert run() == Reconciled(discarded=1)


def test_an_entry_without_any_row_is_dropped(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    Job.objects.all().delete()

    assert run() == Reconciled(discarded=1)
    assert sluice.held([job.id]) == set()


def test_celery_tasks_in_the_control_queue_are_no_business_of_the_reconciler(sluice: Broker) -> None:
    tag = uuid.uuid4()
    sluice.publish_task("control", tag, b"{}")

    assert run() == Reconciled()
    assert factories.claim(sluice, "control").token.job_id == tag


def test_a_running_job_without_a_lease_is_taken_back_after_a_leases_time_and_not_before_by_whoever_looks(
    sluice: Broker,
) -> None:
    job, _ = factories.make_running_job()

    assert run() == Reconciled()
    pass_by(sluice, settings.LEASE_SECONDS - 10)
    assert run() == Reconciled()
    pass_by(sluice, 10.1)
    assert run() == Reconciled(rescued=1)

    job.refresh_from_db()
    assert (job.status, job.attempts, sluice.held([job.id])) == ("queued", 1, {job.id})


def test_a_worker_that_restores_its_lease_in_time_keeps_its_job(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    claimed = factories.claim(sluice, job.queue)
    lifecycle.apply([lifecycle.Start(claimed.token, "worker-1")])

    sluice.client.delete(f"{sluice.prefix}e:".encode() + job.id.bytes)
    run()
    assert sluice.restore(claimed, worker="worker-1", lease_seconds=60)
    pass_by(sluice, 2 * settings.LEASE_SECONDS)
    assert run() == Reconciled()
    sluice.client.delete(f"{sluice.prefix}e:".encode() + job.id.bytes)
    assert run().rescued == 0, "the time without a lease counts anew"


def test_a_running_job_lost_for_the_last_time_fails_and_its_watchers_are_told(sluice: Broker) -> None:
    job, _ = factories.make_running_job(attempts=3, streamed=True)
    sluice.watch(job.id, "web-1")
    run()
    pass_by(sluice, settings.LEASE_SECONDS + 1)

    assert run() == Reconciled(rescued=1)
    job.refresh_from_db()
    assert (job.status, sluice.held([job.id])) == ("failed", set())
    assert [event.kind for event in sluice.stream(job.id)] == ["failed"]


def test_of_two_reconcilers_at_once_one_stands_back(sluice: Broker) -> None:
    factories.make_job()
    with sluice.lock("reconcile", seconds=10):
        assert run() == Reconciled()
    assert run() == Reconciled(published=1)


def test_a_walk_whose_time_is_over_goes_on_there_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[str, str]] = []

    def sweep(name: str, cursor: str, _: int) -> tuple[str, int]:
        parts.append((name, cursor))
        return ("0" if cursor == "1" else "1"), 1

    Clock(step=3).replace_in("inference.reconciliation", monkeypatch)  # time for one part
    walk = Walk()
    assert [walk.go(["bob", "ann"], sweep) for _ in range(4)] == [1] * 4
    assert parts == [("ann", "0"), ("ann", "1"), ("bob", "0"), ("bob", "1")]
    assert walk.go(["bob", "ann"], sweep) == 1
    assert parts[-1] == ("ann", "0"), "from the start again"
