"""A change that takes something away is asked about first."""

import pytest
from django.db import connection
from django.test import Client

from inference import halts, queue_limits, submission
from inference.models import ApiKey, Edit, Job, QueueLimit, Tenant, Tier
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import fields_of, send, url

page = admin_pages.page

QUEUE = f"{factories.MODEL}.standard.short"


def test_a_cap_below_the_backlog_is_asked_about_and_changes_nothing_before_the_answer(page: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=20)
    factories.publish(*[factories.make_job() for _ in range(3)])
    answer = page.post(url(QueueLimit, "change", QUEUE), {"max_jobs": "2", "max_in_flight": ""})

    assert "max jobs of 2 is below the 3 that there are now" in answer.content.decode()
    assert 'name="max_jobs" value="2"' in answer.content.decode()
    assert QueueLimit.objects.get(queue=QUEUE).max_jobs == 20
    assert not Edit.objects.exists()
    assert "was changed" not in answer.content.decode() + page.get(url(QueueLimit, "changelist")).content.decode()
    send(page, url(QueueLimit, "change", QUEUE), {"max_jobs": "2", "max_in_flight": ""})
    assert QueueLimit.objects.get(queue=QUEUE).max_jobs == 2


def test_a_cap_above_the_backlog_is_not_asked_about(page: Client) -> None:
    factories.publish(factories.make_job())
    fields = fields_of(Tier.objects.get(name="standard"), max_queued_jobs="1")
    assert page.post(url(Tier, "change", "standard"), fields).status_code == 302


@pytest.mark.parametrize("action", ["pause", "drain"])
def test_a_halt_from_the_list_says_what_it_holds_back_and_waits_for_the_answer(page: Client, action: str) -> None:
    factories.publish(factories.make_job())
    queue_limits.complete()
    data = {"action": action, "_selected_action": [QUEUE]}
    shown = page.post(url(QueueLimit, "changelist"), data).content.decode()

    assert f"{action.capitalize()} {QUEUE}:" in shown
    assert "1 job" in shown
    assert not QueueLimit.objects.filter(queue=QUEUE, is_paused=True).exists()
    assert not QueueLimit.objects.filter(queue=QUEUE, is_draining=True).exists()


def test_a_resume_is_not_asked_about(page: Client) -> None:
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="ann")
    page.post(url(QueueLimit, "changelist"), {"action": "resume", "_selected_action": [QUEUE]})
    assert not QueueLimit.objects.get(queue=QUEUE).is_paused


def test_the_end_of_a_key_says_how_many_of_its_jobs_are_left(page: Client) -> None:
    row, key = factories.make_key()
    factories.make_job(api_key_id=row.pk)
    data = {"action": "revoke", "_selected_action": [row.pk]}
    shown = page.post(url(ApiKey, "changelist"), data).content.decode()

    assert "1 job that it sent still wait" in shown
    assert ApiKey.objects.is_valid(key)


def test_a_tenants_cap_below_its_jobs_is_asked_about(page: Client) -> None:
    factories.make_job()
    fields = fields_of(Tenant.objects.get(name="default"), max_queued_jobs="0")
    assert "max queued jobs of 0" in page.post(url(Tenant, "change", "default"), fields).content.decode()


@pytest.mark.usefixtures("without_redis")
def test_without_redis_nobody_can_say_and_that_is_asked(page: Client) -> None:
    fields = fields_of(Tier.objects.get(name="bulk"), max_in_flight="1")
    assert "nobody can say how much" in page.post(url(Tier, "change", "bulk"), fields).content.decode()
    assert (
        page.post(url(Tier, "change", "bulk"), fields_of(Tier.objects.get(name="bulk"), weight="2")).status_code
        == 302
    )


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"target_wait_seconds": "-1"}, "A wait cannot be negative"),
        (
            {"max_wait_seconds": "301"},
            "301 s is more than the start deadline, 300 s: jobs would be taken that expire",
        ),
        ({"target_wait_seconds": "20", "max_wait_seconds": "10"}, "20 s is more than the max wait, 10 s"),
        ({"max_queued_jobs": "-1"}, "greater than or equal to 0"),
    ],
)
def test_waits_that_contradict_each_other_are_refused_with_words(
    page: Client, fields: dict[str, str], told: str
) -> None:
    sent = fields_of(Tier.objects.get(name="standard"), **fields)
    assert told in page.post(url(Tier, "change", "standard"), sent).content.decode()


@pytest.mark.parametrize(
    ("length", "bound", "told"),
    [
        ("short", "2049", "2\u202f049 is beyond medium (2\u202f048): change that one first."),
        ("long", "100", "100 is beyond short (511): change that one first."),
        ("short", "", "long has no bound already"),
        ("short", "0", "No prompt has 0 tokens."),
        ("short", "-1", "greater than or equal to 0"),
    ],
)
def test_length_classes_stay_in_order(page: Client, length: str, bound: str, told: str) -> None:
    shown = page.post(f"/admin/inference/lengthclass/{length}/change/", {"max_prompt_tokens": bound})
    assert told in shown.content.decode()


def test_a_bound_between_its_neighbours_is_taken(page: Client) -> None:
    answer = page.post("/admin/inference/lengthclass/short/change/", {"max_prompt_tokens": "600"})
    assert answer.status_code == 302


def test_a_cap_on_waiting_jobs_above_that_on_all_is_refused(page: Client) -> None:
    fields = fields_of(Tenant.objects.get(name="default"), max_queued_jobs="9", max_unfinished_jobs="8")
    shown = page.post(url(Tenant, "change", "default"), fields).content.decode()
    assert "9 is more than the max unfinished jobs, 8: it would never be reached." in shown


def test_no_job_is_lost_by_what_was_only_asked(page: Client) -> None:
    job = factories.make_job()
    page.post(url(Job, "changelist"), {"action": "change_tier", "_selected_action": [job.pk]})
    assert Job.objects.get().tier_id == "standard"


def test_actions_on_jobs_hold_no_lock_from_one_job_to_the_next(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, depths, outer = factories.make_job(), [], len(connection.atomic_blocks)

    def cancel(*_: object, **__: object) -> Job:
        depths.append(len(connection.atomic_blocks) - outer)
        return job

    monkeypatch.setattr(submission, "cancel", cancel)
    page.post(url(Job, "changelist"), {"action": "cancel", "_selected_action": [job.pk], "_confirmed": "yes"})
    assert depths == [0]
