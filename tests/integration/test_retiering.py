"""A waiting job in another tier: its row, its place, its age and its deadline."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from inference import errors, halts, retiering
from inference.broker import Broker
from inference.models import Job, JobEvent, QueueLimit
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import url

page = admin_pages.page

STANDARD, BULK = (f"{factories.MODEL}.{tier}.short" for tier in ("standard", "bulk"))


def waiting(sluice: Broker) -> tuple[int, int]:
    standard, bulk = sluice.stats([STANDARD, BULK])
    return standard.jobs, bulk.jobs


def test_a_moved_job_waits_in_the_other_queue_by_its_first_arrival(sluice: Broker) -> None:
    old, new = (
        factories.make_job(created_at=timezone.now() - timedelta(minutes=5)),
        factories.make_job(tier="bulk"),
    )
    factories.publish(old, new)
    moved = retiering.change_tier(job_id=old.pk, tier="bulk")

    assert (moved.tier_id, moved.status, waiting(sluice)) == ("bulk", "queued", (0, 2))
    assert sum(stats.tokens for stats in sluice.stats([STANDARD])) == 0
    assert factories.claim(sluice, BULK).token.job_id == old.pk
    event = JobEvent.objects.filter(job=old).latest("id")
    assert (event.kind, event.detail) == ("queued", "from tier standard to bulk, by an admin")


def test_a_deadline_only_ever_comes_later(sluice: Broker) -> None:
    job = factories.make_job(tier="bulk", start_deadline_at=timezone.now() + timedelta(hours=20))
    factories.publish(job)
    assert retiering.change_tier(job_id=job.pk, tier="standard").start_deadline_at == job.start_deadline_at
    later = retiering.change_tier(job_id=job.pk, tier="bulk").start_deadline_at
    assert later > job.start_deadline_at


def test_a_running_or_just_claimed_job_stays(sluice: Broker) -> None:
    running, _ = factories.make_running_job()
    claimed = factories.make_job()
    factories.publish(claimed)
    factories.claim(sluice, STANDARD)
    for job in (running, claimed):
        with pytest.raises(errors.InvalidRequest, match="does not wait any more"):
            retiering.change_tier(job_id=job.pk, tier="bulk")
        assert Job.objects.get(pk=job.pk).tier_id == "standard"


def test_a_full_or_draining_queue_takes_nobody(sluice: Broker) -> None:
    job = factories.make_job()
    factories.publish(job)
    QueueLimit.objects.create(queue=BULK, max_jobs=0)
    with pytest.raises(errors.Rejected, match="takes at most 0 waiting jobs"):
        retiering.change_tier(job_id=job.pk, tier="bulk")
    halts.halt_queues(halts.Action.DRAIN, [BULK], by="ann")
    with pytest.raises(errors.Unavailable, match="draining"):
        retiering.change_tier(job_id=job.pk, tier="bulk")
    assert (Job.objects.get().tier_id, waiting(sluice)) == ("standard", (1, 0))


def test_a_job_that_was_not_published_yet_is_published_where_it_now_belongs(sluice: Broker) -> None:
    job = factories.make_job()
    retiering.change_tier(job_id=job.pk, tier="bulk")
    assert waiting(sluice) == (0, 1)


@pytest.mark.usefixtures("without_redis")
def test_without_redis_nothing_is_moved() -> None:
    job = factories.make_job()
    with pytest.raises(errors.Unavailable):
        retiering.change_tier(job_id=job.pk, tier="bulk")
    assert (Job.objects.get().tier_id, JobEvent.objects.count()) == ("standard", 1)


@pytest.mark.parametrize("tier", ["standard", "none"])
def test_only_another_tier_is_one_to_move_to(sluice: Broker, tier: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot move"):
        retiering.change_tier(job_id=factories.make_job().pk, tier=tier)


def test_an_admin_is_asked_for_the_tier_and_moves_what_waits(page: Client, sluice: Broker) -> None:
    job = factories.make_job()
    running, _ = factories.make_running_job()
    factories.publish(job)
    data = {"action": "change_tier", "_selected_action": [str(job.pk), str(running.pk)]}
    asked = page.post(url(Job, "changelist"), data).content.decode()
    assert '<option value="bulk">' in asked
    assert "Move 2 jobs to another tier" in asked

    told = page.post(url(Job, "changelist"), data | {"_confirmed": "yes", "tier": "bulk"}, follow=True)
    assert f"{job.pk} moved to tier bulk; it is queued" in told.content.decode()
    assert "only queued jobs change their tier" in told.content.decode()
    assert waiting(sluice) == (0, 1)
