"""Spilled jobs come into their queues as these empty, and none is lost or doubled by whoever dies over it."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from django.utils import timezone

from inference import errors, feeding, fleet, maintenance, selectors, snapshot, submission
from inference.broker import Broker
from inference.limits import TenantLimits
from inference.models import Budget, Job, JobEvent, QueueLimit, Tenant, Tier
from inference.reconciliation import Reconciled, Reconciler
from inference.states import JobStatus
from inference.waiting import Reason
from tests import factories
from tests.integration import submitting
from tests.integration.submitting import submit
from tests.integration.test_usage import make_price

model_files = submitting.model_files

QUEUE: Final = f"{factories.MODEL}.bulk.short"
CAP: Final = 10


@pytest.fixture(autouse=True)
def cap(sluice: Broker) -> None:
    set_cap(max_jobs=CAP)


def set_cap(**limits: int) -> None:
    QueueLimit.objects.update_or_create(queue=QUEUE, defaults=limits)
    snapshot.forget()


def bulk(count: int, tenant: str = "default") -> list[Job]:
    """Submit jobs one by one, as many clients do."""
    return [submit(tier="bulk", caller=factories.make_caller(tenant=tenant)) for _ in range(count)]


def in_queue(broker: Broker) -> int:
    return broker.stats([QUEUE])[0].jobs


def claim(broker: Broker, count: int) -> None:
    """Take jobs out, as a worker does."""
    for _ in range(count):
        broker.ack(factories.claim(broker, QUEUE).token, status="succeeded")


def statuses(jobs: Sequence[Job]) -> list[str]:
    by_id = dict(Job.objects.values_list("id", "status"))
    return [by_id[job.id] for job in jobs]


def reconcile() -> Reconciled:
    return Reconciler().run(timezone.now() + timedelta(seconds=10))


def lapse(broker: Broker) -> None:
    """Let the time of reservations pass."""
    client: Any = broker.client
    for job_id in client.zrange(f"{broker.prefix}r:{QUEUE}", 0, -1):
        client.zadd(f"{broker.prefix}r:{QUEUE}", {job_id: 1})


def test_a_full_queue_keeps_jobs_as_rows_beyond_its_cap(sluice: Broker) -> None:
    jobs = bulk(CAP + 2)
    assert statuses(jobs) == [JobStatus.QUEUED] * CAP + [JobStatus.SPILLED] * 2
    assert [job.status for job in jobs] == statuses(jobs), "the client is told"
    assert [each.kind for each in JobEvent.objects.filter(job=jobs[-1])] == ["spilled"]
    [row] = [row for row in selectors.queue_rows() if row.queue == QUEUE]
    assert (row.jobs, row.spilled, row.watermark) == (CAP, 2, "emergency")
    assert selectors.waiting_of(jobs)[jobs[-1].id].reason is Reason.SPILLED


def test_what_waits_for_its_answer_is_never_spilled(sluice: Broker) -> None:
    Tier.objects.filter(name="bulk").update(max_held_jobs=1)
    bulk(CAP)
    assert submit(tier="bulk", synchronous=True).status == JobStatus.QUEUED, "it is held"
    with pytest.raises(errors.Rejected):
        submit(tier="bulk", synchronous=True)


def test_a_queue_that_takes_nothing_and_one_that_never_would_refuse(sluice: Broker) -> None:
    set_cap(max_jobs=0)
    with pytest.raises(errors.Rejected):
        bulk(1)
    set_cap(max_jobs=CAP, max_tokens=200)
    with pytest.raises(errors.Rejected):
        bulk(1)


def test_feeding_begins_below_the_low_watermark_and_ends_at_the_warning(sluice: Broker) -> None:
    bulk(CAP + 20)
    claim(sluice, 5)
    assert (feeding.feed(), in_queue(sluice)) == (0, 5)
    claim(sluice, 1)
    assert (feeding.feed(), in_queue(sluice)) == (3, 7)
    assert sluice.stats([QUEUE])[0].spilled == 17


def test_the_oldest_come_first_and_the_next_job_does_not_overtake_them(sluice: Broker) -> None:
    jobs = bulk(CAP + 3)
    claim(sluice, CAP)
    jobs += bulk(1)
    assert statuses(jobs[-1:]) == [JobStatus.SPILLED]
    assert feeding.feed() == 4
    assert [factories.claim(sluice, QUEUE).token.job_id for _ in range(4)] == [job.id for job in jobs[CAP:]]
    assert bulk(1)[0].status == JobStatus.QUEUED, "none is spilled any more"


def test_tenants_take_turns_whoever_spilled_first(sluice: Broker) -> None:
    factories.make_tenant("acme")
    bulk(CAP + 20)
    late = bulk(2, tenant="acme")
    claim(sluice, CAP)
    feeding.feed()
    assert statuses(late) == [JobStatus.QUEUED] * 2


def test_a_cap_of_one_is_fed(sluice: Broker) -> None:
    set_cap(max_jobs=1)
    bulk(2)
    claim(sluice, 1)
    assert feeding.feed() == 1


def test_a_job_larger_than_a_cap_that_was_lowered_holds_no_other_back(sluice: Broker) -> None:
    bulk(CAP)
    large = submit(tier="bulk", body=factories.make_chat("word", max_tokens=500))
    small = submit(tier="bulk", body=factories.make_chat("word", max_tokens=5))
    claim(sluice, CAP)
    set_cap(max_jobs=CAP, max_tokens=100)
    assert feeding.feed() == 1
    assert statuses([large, small]) == [JobStatus.SPILLED, JobStatus.QUEUED]


def test_a_tenants_caps_count_spilled_jobs(sluice: Broker) -> None:
    bulk(CAP + 2)
    who = factories.make_caller(tenant_limits=TenantLimits(max_unfinished_jobs=CAP + 3, max_queued_jobs=CAP + 3))
    last = submit(tier="bulk", caller=who)
    with pytest.raises(errors.Rejected):
        submit(tier="bulk", caller=who)
    submission.cancel(caller=None, job_id=last.id)
    assert submit(tier="bulk", caller=who).status == JobStatus.SPILLED
    assert selectors.unfinished_by("tenant")["default"].queued == CAP + 3


def test_budgets_count_spilled_jobs_until_they_end(sluice: Broker) -> None:
    make_price(prompt_per_million=0, output_per_million=1000, per_engine_second=0)
    Budget.objects.create(monthly=Decimal("0.02"), tenant_id="default")
    set_cap(max_jobs=1)
    body = factories.make_chat("word", max_tokens=10)
    jobs = [submit(tier="bulk", body=body) for _ in range(2)]
    maintenance.count_spending(timezone.now())
    with pytest.raises(errors.Rejected):
        submit(tier="bulk", body=body)
    submission.cancel(caller=None, job_id=jobs[1].id)
    assert submit(tier="bulk", body=body).status == JobStatus.SPILLED


def test_a_spilled_job_that_is_not_fed_in_time_expires(sluice: Broker) -> None:
    fleet.report(factories.make_report(ready_at=timezone.now() - timedelta(hours=2)))
    *_, job = bulk(CAP + 1)
    long_ago = timezone.now() - timedelta(hours=1)
    Job.objects.filter(id=job.id).update(queued_at=long_ago, start_deadline_at=long_ago)
    assert maintenance.expire(timezone.now()) == 1
    assert (statuses([job]), sluice.stats([QUEUE])[0].spilled) == ([JobStatus.EXPIRED], 0)


def test_a_spilled_job_is_cancelled_at_once(sluice: Broker) -> None:
    *_, job = bulk(CAP + 1)
    assert submission.cancel(caller=None, job_id=job.id).status == JobStatus.CANCELLED
    assert sluice.stats([QUEUE])[0].spilled == 0


def test_one_that_was_cancelled_while_it_was_brought_in_is_not_published(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, job = bulk(CAP + 1)
    claim(sluice, CAP)
    feed = type(sluice).feed

    def beaten(self: Broker, *arguments: Any) -> Any:
        taken = feed(self, *arguments)
        submission.cancel(caller=None, job_id=job.id)
        return taken

    monkeypatch.setattr(type(sluice), "feed", beaten)
    assert feeding.feed() == 0
    [stats] = sluice.stats([QUEUE])
    assert (stats.jobs, stats.tokens, stats.spilled) == (0, 0, 0)


def test_rows_that_do_not_move_are_spilled_again_after_a_while(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bulk(CAP + 1)
    claim(sluice, CAP)
    die_feeding("inference.lifecycle.apply", monkeypatch)
    assert (feeding.feed(), sluice.stats([QUEUE])[0].spilled) == (0, 0), "room is kept for it"
    lapse(sluice)
    sluice.due(lease_seconds=60)
    assert sluice.stats([QUEUE])[0].spilled == 1
    assert (feeding.feed(), in_queue(sluice)) == (1, 1)


def die_feeding(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: object, **__: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(where, dies)
        with pytest.raises(InterruptedError):
            feeding.feed()


@pytest.mark.parametrize("is_late", [False, True])
def test_rows_that_moved_and_were_not_published_are_by_the_reconciler(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    *_, job = bulk(CAP + 1)
    claim(sluice, CAP)
    die_feeding("inference.publication.publish", monkeypatch)
    if is_late:
        lapse(sluice)
        sluice.due(lease_seconds=60)
    Job.objects.exclude(id=job.id).delete()
    assert reconcile() == Reconciled(published=1)
    [stats] = sluice.stats([QUEUE])
    assert (stats.jobs, stats.tokens, stats.spilled) == (1, job.prompt_tokens + job.expected_tokens, 0)
    assert (feeding.feed(), in_queue(sluice)) == (0, 1)


def test_after_a_wipe_spilled_rows_are_known_again_and_not_published(sluice: Broker) -> None:
    jobs = bulk(CAP + 3)
    for key in sluice.client.scan_iter(f"{sluice.prefix}*"):
        sluice.client.delete(key)
    assert reconcile() == Reconciled(published=CAP, spilled=3)
    assert reconcile() == Reconciled()
    assert (in_queue(sluice), sluice.stats([QUEUE])[0].spilled) == (CAP, 3)
    claim(sluice, CAP)
    assert feeding.feed() == 3
    assert statuses(jobs[CAP:]) == [JobStatus.QUEUED] * 3


def test_what_no_row_says_is_spilled_is_counted_no_more(sluice: Broker) -> None:
    jobs = bulk(CAP + 2)
    client: Any = sluice.client
    for job in jobs[CAP:]:
        client.zadd(f"{sluice.prefix}spilled:{QUEUE}", {job.id.bytes: 1})
    jobs[-1].delete()  # as if who admitted it had died before it wrote the row
    assert reconcile() == Reconciled(unspilled=1)
    assert sluice.stats([QUEUE])[0].spilled == 1
    assert client.zcard(f"{sluice.prefix}jobs:default") == CAP + 1


def test_idle_feeding_asks_the_database_nothing(sluice: Broker, django_assert_num_queries: Any) -> None:
    bulk(1)
    snapshot.limits()
    with django_assert_num_queries(0):
        assert feeding.feed() == 0


def test_a_tenants_row_may_be_fed_at_any_weight(sluice: Broker) -> None:
    Tenant.objects.filter(name="default").update(weight=3)
    bulk(CAP + 1)
    claim(sluice, CAP)
    feeding.feed()
    assert sluice.client.hget(f"{sluice.prefix}weights", "default") == b"3.0"
