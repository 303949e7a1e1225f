"""Limits edited in the admin: what is refused, what is warned of, what they are shown beside."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from inference import snapshot
from inference.broker import Broker, BrokerAway, ClaimRequest, Credit
from inference.models import LengthClass, Price, QueueLimit, ServedModel, Tenant, Tier
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import fields_of, url

page = admin_pages.page


def test_a_second_default_model_is_refused_with_advice(page: Client) -> None:
    other = ServedModel.objects.create(name="other", source="other")
    shown = page.post(url(ServedModel, "change", "other"), fields_of(other, is_default="on")).content.decode()

    assert "Another model is the default one: untick it there first." in shown


@pytest.mark.parametrize(
    ("model", "changes", "advice"),
    [
        (Tier, {"weight": "0"}, "greater than or equal to 0.001"),
        (ServedModel, {"engine_args": "[1]"}, "must be a list of strings"),
        (Tenant, {"weight": "-1"}, "greater than or equal to 0.001"),
    ],
)
def test_a_wrong_value_is_refused_with_advice(
    page: Client, model: type[Model], changes: dict[str, str], advice: str
) -> None:
    row = model._default_manager.all()[0]
    shown = page.post(url(model, "change", row.pk), fields_of(row, **changes)).content.decode()

    assert advice in shown


def test_a_cap_on_what_is_no_queue_is_refused(page: Client) -> None:
    shown = page.post(url(QueueLimit, "add"), {"queue": "standard", "max_jobs": 1}).content.decode()

    assert "There is no queue standard. There are: smollm2-135m-instruct.realtime.short, " in shown


def test_a_value_that_picks_another_tier_is_refused(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    shown = page.post(url(Tier, "change", "bulk"), fields_of(bulk, service_tiers="x, auto")).content.decode()

    assert "auto already picks tier standard: remove it there first." in shown


def price_from(moment: datetime) -> dict[str, object]:
    fields = {"model": factories.MODEL, "prompt_per_million": 1, "output_per_million": 2, "per_engine_second": 0}
    return {**fields, "valid_from_0": f"{moment:%Y-%m-%d}", "valid_from_1": f"{moment:%H:%M:%S}"}


def test_a_price_that_begins_in_the_past_is_refused(page: Client) -> None:
    shown = page.post(url(Price, "add"), price_from(datetime(2020, 1, 1, tzinfo=UTC))).content.decode()

    assert "2020-01-01 00:00 is in the past: it is " in shown
    assert not Price.objects.exists()


def test_a_price_from_the_moment_at_which_its_form_was_opened_is_from_now_on(page: Client) -> None:
    now = timezone.now()
    page.post(url(Price, "add"), price_from(now - timedelta(minutes=20)))

    assert Price.objects.get().valid_from > now - timedelta(minutes=1)


def test_a_price_to_come_begins_when_it_says(page: Client) -> None:
    moment = datetime(2099, 1, 1, tzinfo=UTC)
    page.post(url(Price, "add"), price_from(moment))

    assert Price.objects.get().valid_from == moment


def test_a_price_is_listed_to_its_last_digit_with_the_currency(page: Client) -> None:
    Price.objects.create(model_id=factories.MODEL, prompt_per_million="0.125", output_per_million=1200)
    listed = page.get(url(Price, "changelist")).content.decode()

    assert {"0.125 USD", "1200 USD", "0 USD"} <= set(re.findall(r"[\d.]+ USD", listed))


def test_an_objective_later_than_the_deadline_is_refused(page: Client) -> None:
    fields = fields_of(Tier.objects.get(name="standard"), target_wait_seconds="301")

    assert "jobs would expire first" in page.post(url(Tier, "change", "standard"), fields).content.decode()


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        (
            {"hold_seconds": "301"},
            "301 s is more than the sync start deadline, 300 s: calls on hold would expire first.",
        ),
        ({"hold_seconds": "0"}, "greater than or equal to 0.1"),
        ({"on_full": "hold", "max_held_jobs": "0"}, "full queues refuse all: choose reject instead"),
        ({"on_full": "hold", "max_held_jobs": "-1"}, "greater than or equal to 0"),
        ({"on_full": "queue"}, "not one of the available choices"),
    ],
)
def test_a_hold_that_holds_nobody_is_refused(page: Client, changes: dict[str, str], advice: str) -> None:
    fields = fields_of(Tier.objects.get(name="standard"), **changes)

    assert advice in page.post(url(Tier, "change", "standard"), fields).content.decode()


def test_a_step_too_small_for_its_sequences_is_refused(page: Client) -> None:
    fields = fields_of(ServedModel.objects.get(), max_num_batched_tokens="8")
    shown = page.post(url(ServedModel, "change", factories.MODEL), fields).content.decode()

    assert "8 is less than max num seqs, 32" in shown


def test_limits_that_refuse_requests_are_saved_with_a_warning(page: Client) -> None:
    fields = {"max_prompt_tokens": "9000"}
    shown = page.post(url(LengthClass, "change", "long"), fields, follow=True).content.decode()

    assert "No length class is unbounded: long prompts are refused" in shown


def test_the_name_of_a_row_cannot_be_changed_into_another_row(page: Client) -> None:
    fields = fields_of(Tier.objects.get(name="bulk"), name="slow", weight="2")
    page.post(url(Tier, "change", "bulk"), fields)

    assert set(Tier.objects.values_list("name", flat=True)) == {"realtime", "standard", "bulk"}
    assert Tier.objects.get(name="bulk").weight == 2


@pytest.mark.parametrize("model", [Tier, LengthClass, ServedModel, QueueLimit])
def test_lists_of_limits_show_the_backlog_as_it_is(page: Client, model: type[Model]) -> None:
    job = factories.make_job(created_at=timezone.now() - timedelta(seconds=700))
    QueueLimit.objects.create(queue=job.queue, max_jobs=5)
    factories.publish(job)
    shown = page.get(url(model, "changelist")).content.decode()

    assert re.search(r'<td[^>]* data-label="waiting"[^>]*>\s*1\s*</td>', shown)
    assert re.search(r'<td[^>]* data-label="backlog seconds"[^>]*>\s*12 min\s*</td>', shown)


@pytest.mark.parametrize("model", [Tier, LengthClass, ServedModel, QueueLimit])
def test_lists_of_limits_open_without_redis(
    page: Client, model: type[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.selectors.queue_rows", _away)

    assert page.get(url(model, "changelist")).status_code == 200


def test_a_model_shows_its_measured_rates_in_the_list_and_beside_the_configured_ones(
    page: Client, sluice: Broker
) -> None:
    addresses = [url(ServedModel, "changelist"), url(ServedModel, "change", factories.MODEL)]
    assert all("not yet" in page.get(address).content.decode() for address in addresses)
    factories.measure(sluice, prefill=5000.0, decode=100.0)
    shown = [page.get(address).content.decode() for address in addresses]
    assert all("5\u202f000 in, 100 out (by about 19 calls)" in text for text in shown)


def _away(*_: object) -> None:
    raise BrokerAway


def test_a_tiers_new_weight_is_live_once_the_cache_is_over(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    assert page.post(url(Tier, "change", "bulk"), fields_of(bulk, weight="55")).status_code == 302

    assert snapshot.read().tiers["bulk"].weight == 55


def test_a_tenants_new_weight_decides_the_next_claim(page: Client, sluice: Broker) -> None:
    tenant = factories.make_tenant("acme")
    jobs = [factories.make_job(tenant=name) for name in ("default", "acme") for _ in range(4)]
    factories.publish(*jobs)
    assert page.post(url(Tenant, "change", "acme"), fields_of(tenant, weight="1000")).status_code == 302

    credit = Credit(sequences=4, kv_tokens=10_000)
    claimed = sluice.claim(ClaimRequest((jobs[0].queue,), credit, limit=4, worker="w", lease_seconds=60)).jobs
    assert [c.tenant for c in claimed] == ["acme"] * 4
