"""How the admin says what is, and what was done: one word for one thing, and units as everywhere."""

import html
import re
from decimal import Decimal

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import strip_tags

from inference import clock, halts
from inference.models import Budget, Edit, Job, LengthClass, Price, QueueLimit, Tenant, Tier, Usage
from inference.templatetags.shown import NONE
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import act, fields_of, url

page = admin_pages.page

QUEUE = f"{factories.MODEL}.standard.short"


def words(shown: str) -> str:
    """The text of a page, on one line."""
    return " ".join(html.unescape(strip_tags(shown)).split())


def budget(monthly: str, *, spent_nano: int) -> Budget:
    Usage.objects.create(
        day=clock.now().date(),
        tenant="default",
        api_key="",
        model=factories.MODEL,
        tier="standard",
        jobs=1,
        prompt_tokens=1,
        output_tokens=1,
        engine_ms=1,
        cost_nano=spent_nano,
    )
    return Budget.objects.create(tenant_id="default", monthly=Decimal(monthly))


def test_the_first_page_says_who_halted_a_queue_and_what_waits_above_its_cap(page: Client) -> None:
    factories.publish(*[factories.make_job() for _ in range(5)])
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ada")
    QueueLimit.objects.filter(queue=QUEUE).update(max_jobs=3)
    shown = words(page.get(reverse("admin:index")).content.decode())

    assert "5 wait (cap 3), 0 run;" in shown
    assert "; paused by user ada" in shown
    halts.halt_queues(halts.Action.RESUME, [QUEUE], by="user bob")
    assert "; resumed by user bob" in words(page.get(reverse("admin:index")).content.decode())


def test_the_history_is_called_so_everywhere_and_names_fields_as_pages_do(page: Client) -> None:
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ada")
    for address in (reverse("admin:index"), url(QueueLimit, "history", QUEUE), url(Edit, "changelist")):
        shown = words(page.get(address).content.decode())
        assert "paused: no → yes" in shown
        assert "is paused" not in shown
        assert "History" in shown
        assert not re.search(r"\bEdits\b|Last changes|All changes", shown), address


def test_a_budgets_share_has_the_space_that_shares_have_elsewhere(page: Client) -> None:
    budget("500", spent_nano=307_530_034_474)
    assert "61.5 %" in page.get(url(Budget, "changelist")).content.decode()


def test_a_budget_below_what_is_spent_is_told_in_money(page: Client) -> None:
    row = budget("500", spent_nano=307_530_034_474)
    shown = words(page.post(url(Budget, "change", row.pk), {"monthly": "100"}).content.decode())
    currency = settings.CURRENCY
    assert f"of 100.00 {currency} is below the 307.53 {currency} that is spent this month" in shown
    assert "What this would do" in shown


@pytest.mark.parametrize(
    ("model", "key", "name"),
    [(Tenant, "default", "Name"), (LengthClass, "short", "Name"), (Tier, "bulk", "Name"), (Budget, "1", "Tenant")],
)
def test_a_page_begins_with_what_it_is_about(page: Client, model: type[Model], key: str, name: str) -> None:
    if model is Budget:
        key = str(budget("5", spent_nano=0).pk)
    shown = page.get(url(model, "change", key)).content.decode()
    labels = re.findall(r"<label[^>]*>(.*?)</label>", shown[shown.index('id="content-main"') :], re.DOTALL)
    assert words(labels[0]).startswith(name)


def test_nothing_is_a_dash_of_one_kind_on_a_jobs_page(page: Client) -> None:
    job, _ = factories.make_running_job()
    for row in (job, factories.make_job()):
        shown = page.get(url(Job, "change", row.pk)).content.decode()
        assert re.search(rf">\s*{NONE}\s*<", shown)
        assert not re.search(r">\s*-\s*<", shown)


def test_a_user_without_a_role_has_a_dash_in_its_place(page: Client) -> None:
    User.objects.create_user("ada")
    shown = page.get(reverse("admin:auth_user_changelist")).content.decode()
    assert re.search(rf"field-roles[^>]*>\s*(<[^>]*>\s*)*{NONE}", shown)


def test_a_cancel_asks_first_and_says_how_many_would_end(page: Client) -> None:
    queued, (running, _), gone = factories.make_job(), factories.make_running_job(), factories.make_job()
    act(page, Job, "cancel", gone.pk)
    data = {"action": "cancel", "_selected_action": [queued.pk, running.pk, gone.pk]}
    shown = words(page.post(url(Job, "changelist"), data).content.decode())

    assert "Cancel 1 queued and 1 running jobs: they end without an answer; 1 job has ended already" in shown
    assert sorted(Job.objects.values_list("status", flat=True)) == ["cancelled", "queued", "running"]
    act(page, Job, "cancel", queued.pk, running.pk)
    assert {*Job.objects.values_list("status", flat=True)} == {"cancelled"}


def test_what_was_done_to_jobs_is_told_with_the_tier_and_an_id_once(page: Client) -> None:
    jobs = [factories.make_job() for _ in range(3)]
    factories.publish(*jobs)
    confirmed = {"action": "change_tier", "tier": "bulk", "_confirmed": "yes"}

    def move(*chosen: Job) -> str:
        data = confirmed | {"_selected_action": [job.pk for job in chosen]}
        return words(page.post(url(Job, "changelist"), data, follow=True).content.decode())

    assert "2 jobs moved to tier bulk: 2 queued" in move(*jobs[:2])
    assert f"{jobs[2].pk} moved to tier bulk; it is queued" in move(jobs[2])
    told = words(act(page, Job, "retry", jobs[0].pk))
    assert re.findall(rf"\S* ?{jobs[0].pk}[^.]*can be retried", told) == [
        f"job {jobs[0].pk} is queued; only cancelled, expired, failed jobs can be retried"
    ]


def test_a_form_that_changes_a_queue_says_nothing_of_jobs_where_none_wait(page: Client) -> None:
    fields = fields_of(QueueLimit.objects.create(queue=QUEUE), is_paused="on")
    shown = words(page.post(url(QueueLimit, "change", QUEUE), fields).content.decode())
    assert f"Pause {QUEUE}: nothing of it would start until it is resumed." in shown


def test_a_price_of_all_tiers_says_so_and_a_long_tenants_name_is_whole_in_its_title(page: Client) -> None:
    Price.objects.create(model_id=factories.MODEL, prompt_per_million=1, output_per_million=1)
    factories.make_tenant("t" * 64)
    factories.make_job(tenant="t" * 64)
    assert re.search(r"field-tiers[^>]*>\s*all tiers", page.get(url(Price, "changelist")).content.decode())
    shown = page.get(url(Job, "changelist")).content.decode()
    assert f'<span title="{"t" * 64}">{"t" * 23}…</span>' in shown


def test_the_history_writes_moments_as_pages_do_and_leaves_out_what_was_left_empty(page: Client) -> None:
    moment = clock.now().replace(microsecond=0)
    values = {"valid_from": [None, moment.isoformat()], "tiers": [None, []]}
    Edit.objects.create(by="user ada", kind="created", table="price", row="1", values=values)
    shown = words(page.get(url(Edit, "changelist")).content.decode())
    assert moment.isoformat() not in shown
    assert f"valid from: {NONE} → {date_format(moment, 'DATETIME_FORMAT')}" in shown
    assert f"{NONE} → {NONE}" not in shown
