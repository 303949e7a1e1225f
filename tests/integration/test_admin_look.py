"""How the admin's pages say things: names, numbers, dates, lists, and pages of what is not there."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.test.client import RequestFactory
from django.views import defaults

from inference import fleet
from inference.broker import Broker
from inference.models import Job, LengthClass, Tenant, Tier, Usage, Worker, WorkerLimit
from tests import factories
from tests.integration import admin_pages, dashboard_pages
from tests.integration.admin_pages import fields_of, send, url
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]
pytestmark = pytest.mark.once

page, member = admin_pages.page, dashboard_pages.member


def of(client: Client, path: str) -> str:
    text: str = client.get(path).content.decode()
    return text


def test_a_rows_name_stands_as_it_is_written(page: Client) -> None:
    title = of(page, url(Tier, "change", "bulk")).partition("<h1")[2].partition("</h1>")[0]
    words = [part.partition("<")[0].strip() for part in title.split(">")]
    assert [word for word in words if word and word != "chevron_right"][-2:] == ["Tiers", "bulk"]


def test_an_empty_list_offers_only_what_can_be_done(page: Client) -> None:
    nothing = of(page, url(WorkerLimit, "changelist"))
    assert "There is nothing here yet." in nothing
    assert "Create a new item" not in nothing
    assert "/add/" not in nothing.partition('class="empty-list')[2]
    searched = of(page, f"{url(Tenant, 'changelist')}?q=nobody")
    assert "Nothing matches." in searched
    assert url(Tenant, "add") in searched.partition('class="empty-list')[2]


def test_a_workers_page_names_its_numbers(page: Client) -> None:
    report: Any = factories.make_report(name="worker-1", slots=4)
    fleet.report(report)
    shown = of(page, url(Worker, "change", "worker-1"))
    assert "KV tokens" in shown
    assert "Kv " not in shown
    assert "Process ID" in shown
    assert "heard of" not in of(page, url(Worker, "changelist"))


def test_statuses_and_states_are_coloured(page: Client) -> None:
    factories.make_job()
    report: Any = factories.make_report(name="worker-1")
    fleet.report(report)
    for model, word in ((Job, "queued"), (Worker, report.state.value)):
        cell = of(page, url(model, "changelist")).partition('<td class="field-badge')[2].partition("</td>")[0]
        assert re.search(rf'<span class="[^"]*bg-(orange|green)-100[^"]*"[^>]*>\s*{word}\s*</span>', cell)


def test_use_is_written_with_thin_spaces_an_iso_date_and_the_currency(page: Client) -> None:
    Usage.objects.create(
        day=datetime(2026, 11, 30, tzinfo=UTC).date(),
        tenant="acme",
        api_key="",
        tier="bulk",
        model=factories.MODEL,
        jobs=1234,
        prompt_tokens=2_345_678,
        output_tokens=10_000,
        engine_ms=1,
        cost_nano=170_000_000,
    )
    shown = of(page, url(Usage, "changelist"))
    for text in ("2026-11-30", "1\u202f234", "2\u202f345\u202f678", "10\u202f000", f"0.17 {settings.CURRENCY}"):
        assert text in shown, text
    assert "Nov." not in shown


def test_bounds_and_consequences_are_written_as_other_numbers(page: Client) -> None:
    assert "up to 2\u202f048" in of(page, url(LengthClass, "changelist"))


def test_the_values_that_pick_a_tier_are_words(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    assert 'value="default, auto"' in of(page, url(Tier, "change", "standard"))
    send(page, url(Tier, "change", "bulk"), fields_of(bulk, service_tiers=" flex,  batch ,"))
    bulk.refresh_from_db()
    assert bulk.service_tiers == ["flex", "batch"]
    emptied = fields_of(bulk, service_tiers="") | {"initial-service_tiers": "flex, batch"}
    send(page, url(Tier, "change", "bulk"), emptied)
    bulk.refresh_from_db()
    assert bulk.service_tiers == []


def test_a_jobs_texts_are_in_boxes_and_stay_text(page: Client) -> None:
    job = factories.make_job(request='{"messages": [{"role": "user", "content": "<b>long</b>"}]}')
    shown = of(page, url(Job, "change", job.pk))
    assert '<div class="long-text " tabindex="0">&lt;b&gt;long&lt;/b&gt;</div>' in shown
    assert shown.count('class="long-text code"') == 1, "the request; there is no result"
    assert "Api key" not in shown


@pytest.mark.parametrize("path", ["/nowhere", "/dashboard/nowhere/", "/admin/nowhere/"])
def test_an_unknown_address_is_told_on_a_page_that_leads_back(page: Client, path: str) -> None:
    answer = page.get(path, follow=True)
    assert answer.status_code == 404
    assert "There is nothing at this address." in answer.content.decode()
    assert 'href="/dashboard/"' in answer.content.decode()


def test_the_apis_unknown_addresses_stay_json(api: Api) -> None:
    answer = api.get("/api/nowhere")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


def test_what_is_forbidden_out_of_date_or_broken_is_told_on_such_a_page(sluice: Broker) -> None:
    request = RequestFactory().get("/admin/")
    assert "An admin can give you the role" in defaults.permission_denied(request, Exception()).content.decode()
    assert "Back to the dashboard" in defaults.server_error(request).content.decode()
    forged = Client(enforce_csrf_checks=True).post("/login/", {})
    assert (forged.status_code, "load the page again" in forged.content.decode()) == (403, True)
