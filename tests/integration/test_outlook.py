"""Why jobs wait, told from rows and a real broker: each reason is brought about, and must be the one told."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from inference import fleet, halts, lifecycle, selectors
from inference.broker import Broker
from inference.models import Job, LengthClass, QueueLimit, ServedModel, Tier
from inference.retries import Backoff
from inference.states import WorkerState
from inference.waiting import Reason
from tests import factories
from tests.integration.outlooks import QUEUE, QUEUES, claim, publish, report, run, why


def test_of_a_paused_queue(sluice: Broker) -> None:
    report()
    [job] = publish()
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    found = why(job)
    assert (found.reason, found.expected_start) == (Reason.PAUSED, None)
    assert found.detail == f"queue {QUEUE} is paused"
    assert selectors.waiting_of([job], names_operators=True)[job.pk].detail == f"{found.detail} by user ann"


def test_without_a_worker(sluice: Broker) -> None:
    [job] = publish()
    found = why(job)
    assert (found.reason, found.position, found.expected_start) == (Reason.NO_WORKER, 1, None)


def test_with_workers_of_other_queues_only(sluice: Broker) -> None:
    report(serve=("*.realtime.*",))
    [job] = publish()
    assert why(job).reason is Reason.NO_WORKER
    assert "1 worker of the model serve others" in why(job).detail


def test_a_silent_worker_is_none(sluice: Broker) -> None:
    fleet.report(factories.make_report(), now=timezone.now() - timedelta(seconds=30))
    [job] = publish()
    assert why(job).reason is Reason.NO_WORKER


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (WorkerState.LOADING, Reason.WORKER_LOADING),
        (WorkerState.WARMING, Reason.WORKER_LOADING),
        (WorkerState.PAUSED, Reason.WORKER_PAUSED),
        (WorkerState.DRAINING, Reason.WORKER_PAUSED),
        (WorkerState.STOPPED, Reason.NO_WORKER),
    ],
)
def test_while_no_worker_is_ready(sluice: Broker, state: WorkerState, reason: Reason) -> None:
    report(state=state, state_detail="as it is")
    [job] = publish()
    assert why(job).reason is reason


def test_without_a_free_slot(sluice: Broker) -> None:
    report()
    run(sluice, 8)
    first, second = publish(2)
    assert (why(first).reason, why(second).reason) == (Reason.NO_FREE_SLOT, Reason.NO_FREE_SLOT)
    assert (why(first).position, why(second).position) == (1, 2)


def test_without_a_slot_but_the_reserve(sluice: Broker) -> None:
    report()
    run(sluice, 7)
    [job] = publish()
    assert (why(job).reason, why(job).detail) == (
        Reason.NO_FREE_SLOT,
        "all 8 slots of 1 worker are taken but 1, reserved for other tiers",
    )


def test_when_what_is_free_is_reserved(sluice: Broker) -> None:
    ServedModel.objects.update(reserve_share=0.25)
    report()
    run(sluice, 6)
    [job], [urgent] = publish(), publish(tier="realtime")
    assert (why(job).reason, why(urgent).reason) == (Reason.FAIR_SHARE, Reason.NEXT)
    lifecycle.apply([lifecycle.Cancel(urgent.pk)])
    sluice.cancel(urgent.pk)
    assert why(job).reason is Reason.RESERVED_SLOTS


def test_without_free_kv(sluice: Broker) -> None:
    report(kv_used_tokens=900)
    run(sluice, 1)
    [job] = publish(prompt_tokens=100)
    assert why(job).reason is Reason.NO_FREE_KV


@pytest.mark.parametrize("what", ["model", "tier", "length", "queue"])
def test_at_a_cap_in_flight(sluice: Broker, what: str) -> None:
    if what == "queue":
        QueueLimit.objects.create(queue=QUEUE, max_in_flight=2)
    else:
        model = {"model": ServedModel, "tier": Tier, "length": LengthClass}[what]
        model._default_manager.filter(name__in=[factories.MODEL, "standard", "short"]).update(max_in_flight=2)
    report()
    run(sluice, 2)
    [job] = publish()
    assert why(job).reason is Reason.IN_FLIGHT_CAP
    assert f"{what} " in why(job).detail


def test_after_a_failure(sluice: Broker) -> None:
    report()
    [job] = publish()
    [claimed] = claim(sluice, 1)
    sluice.release(claimed.token, backoff=Backoff(60.0, 60.0, 1.0))
    found = why(job)
    assert found.reason is Reason.BACKING_OFF
    assert found.expected_start is not None
    assert 50 < (found.expected_start - timezone.now()).total_seconds() < 61


def test_when_its_tier_holds_its_share_and_online_work_came_lately(sluice: Broker) -> None:
    Tier.objects.filter(name="bulk").update(max_share=0.25)
    report()
    publish()
    assert len(claim(sluice, 1)) == 1
    run(sluice, 2, tier="bulk")
    [job] = publish(tier="bulk")
    assert why(job).reason is Reason.MAX_SHARE


def test_when_its_tier_holds_its_share_of_the_cache(sluice: Broker) -> None:
    Tier.objects.filter(name="bulk").update(max_share=0.5)
    report(kv_capacity_tokens=1000, kv_used_tokens=400)
    publish(expected_tokens=1)
    assert len(claim(sluice, 1)) == 1
    run(sluice, 1, tier="bulk", prompt_tokens=300, expected_tokens=10)
    [job] = publish(tier="bulk", prompt_tokens=300, expected_tokens=10)
    found = why(job)
    assert (found.reason, "tier's share" in found.detail) == (Reason.MAX_SHARE, True)


def test_in_a_gather_window(sluice: Broker) -> None:
    Tier.objects.filter(name="standard").update(gather_jobs=5, gather_seconds=60)
    report()
    run(sluice, 1)
    [job] = publish()
    assert why(job).reason is Reason.GATHER_WINDOW


def test_behind_other_tenants(sluice: Broker) -> None:
    factories.make_tenant("late")
    report()
    claim(sluice, 1)
    run(sluice, 8)
    publish(20, created_at=timezone.now() - timedelta(seconds=30))
    [late] = publish(tenant="late")
    found = why(late)
    assert found.reason in {Reason.FAIR_SHARE, Reason.NO_FREE_SLOT}
    assert found.position in {1, 2}


def test_behind_a_tenant_of_another_weight(sluice: Broker) -> None:
    factories.make_tenant("heavy")
    report()
    claim(sluice, 1)
    run(sluice, 8)
    publish(60, tenant="heavy")
    sluice.set_tenant_weight("heavy", 8.0)
    *_, last = publish(5)
    told = why(last).position
    order = [claimed.token.job_id for claimed in claim(sluice, 65)]
    assert told == 1 + order.index(last.pk)


def test_when_a_worker_is_about_to_take_it(sluice: Broker) -> None:
    report()
    [job] = publish()
    found = why(job)
    assert (found.reason, found.position) == (Reason.NEXT, 1)
    assert found.expected_start is not None


def test_of_a_job_that_a_worker_has_and_does_not_begin(sluice: Broker) -> None:
    report()
    [job] = publish()
    claim(sluice, 1)
    found = why(job)
    assert (found.reason, found.position, found.expected_start) == (Reason.AT_WORKER, None, None)
    assert found.detail.startswith("w has it")


def test_between_row_and_queue(sluice: Broker) -> None:
    report()
    job = factories.make_job()
    assert (why(job).reason, why(job).position) == (Reason.IN_TRANSIT, None)


def test_of_a_model_that_is_not_served_any_more(sluice: Broker) -> None:
    [job] = publish()
    ServedModel.objects.update(enabled=False)
    assert why(job).reason is Reason.NO_WORKER


def test_of_jobs_that_do_not_wait_nothing_is_told(sluice: Broker) -> None:
    running, _ = factories.make_running_job()
    assert selectors.waiting_of([running]) == {}


def test_a_queue_waits_for_what_its_first_job_waits_for(sluice: Broker) -> None:
    report()
    run(sluice, 8)
    publish(3)
    rows = {row.queue: row for row in selectors.queue_rows()}
    assert (rows[QUEUE].waiting_reason, rows[QUEUES[0]].waiting_reason) == ("no_free_slot", "")
    assert (rows[QUEUE].expected_wait_seconds or 0) > 0


def positions(jobs: list[Job]) -> list[int | None]:
    found = selectors.waiting_of(jobs)
    return [found[UUID(str(job.pk))].position for job in jobs]


def test_a_tenants_jobs_are_numbered_in_their_order(sluice: Broker) -> None:
    report()
    claim(sluice, 1)
    run(sluice, 8)
    now = timezone.now()
    jobs = [publish(created_at=now - timedelta(seconds=9 - n))[0] for n in range(5)]
    assert positions(jobs) == [1, 2, 3, 4, 5]
