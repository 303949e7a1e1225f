"""Budgets as submissions meet them, against what the database says."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import OperationalError

from inference import budgets, charges, errors, lifecycle, maintenance, snapshot, submission
from inference.broker import Broker, Ending, text_of
from inference.limits import Budget
from inference.models import Budget as BudgetRow
from inference.models import Job, Usage
from inference.reconciliation import Reconciler
from tests import factories
from tests.integration import submitting
from tests.integration.submitting import QUEUE, assert_nothing_left, submit
from tests.integration.test_usage import make_price

model_files = submitting.model_files
BODY = factories.make_chat("word", max_tokens=10)


def make_budget(monthly: str, **fields: Any) -> BudgetRow:
    """A budget of the default tenant, or of a key."""
    snapshot.forget()
    return BudgetRow.objects.create(monthly=Decimal(monthly), **{"tenant_id": "default"} | fields)


def cheap_price() -> None:
    """A thousandth of a unit for each output token."""
    make_price(prompt_per_million=0, output_per_million=1000, per_engine_second=0)


def refused(**values: Any) -> errors.SluiceError:
    with pytest.raises(errors.SluiceError) as caught:
        submit(body=BODY, **values)
    return caught.value


def test_a_job_that_would_pass_its_budget_is_refused_and_told_until_when(sluice: Broker) -> None:
    cheap_price()
    make_budget("0.02")
    submit(body=BODY)
    submit(body=BODY)
    error = refused()

    assert (error.status, error.code, error.retry_after_seconds) == (429, "insufficient_quota", None)
    assert {name: error.details[name] for name in ("limit", "spent", "reserved", "requested")} == {
        "limit": "0.02",
        "spent": "0.00",
        "reserved": "0.02",
        "requested": "0.01",
    }
    assert "tenant default may spend 0.02 USD a month" in error.message
    assert "-01T00:00Z" in error.message
    assert Job.objects.count() == 2


def test_what_was_spent_before_is_read_from_the_database(sluice: Broker) -> None:
    cheap_price()
    make_budget("1")
    values = {"model": factories.MODEL, "tier": "bulk", "jobs": 1, "prompt_tokens": 1, "output_tokens": 1}
    today = datetime.now(UTC).date()
    last_month = charges.month_of(today) - timedelta(days=1)
    for day, cost in ((today, 995_000_000), (last_month, 10**12)):
        Usage.objects.create(day=day, tenant="default", api_key="", engine_ms=0, cost_nano=cost, **values)
    error = refused()

    assert (error.code, error.details["spent"]) == ("insufficient_quota", "0.995")
    assert_nothing_left(sluice)


def test_a_keys_budget_stops_that_key_alone(sluice: Broker) -> None:
    cheap_price()
    key, _ = factories.make_key()
    other, _ = factories.make_key(name="other")
    make_budget("0", api_key=key)
    error = refused(caller=factories.make_caller(api_key_id=key.pk))

    assert "this key may spend 0.00 USD" in error.message
    submit(body=BODY, caller=factories.make_caller(api_key_id=other.pk))
    submit(body=BODY)


def test_what_a_job_cost_makes_room_for_the_rest(sluice: Broker) -> None:
    make_price(prompt_per_million=0, output_per_million=2000, per_engine_second=0)
    make_budget("0.03")
    job = submit(body=BODY)
    refused()
    claimed = factories.claim(sluice, QUEUE)
    [applied] = lifecycle.apply(
        [lifecycle.Start(claimed.token, "w"), factories.make_success(claimed.token, output_tokens=5)]
    )[1:]
    month = text_of(datetime.now(UTC).date())
    sluice.ack_many([Ending(claimed.token, "succeeded", cost_nano=applied.cost_nano, month=month)])
    job.refresh_from_db()

    assert job.cost_nano == applied.cost_nano == 10_000_000
    submit(body=BODY)
    assert refused().details["spent"] == "0.01"


def test_models_without_a_price_know_no_budget(sluice: Broker) -> None:
    make_budget("0")

    submit(body=BODY)


def test_while_it_cannot_be_read_what_was_spent_nothing_is_taken(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheap_price()
    make_budget("1000")

    def away(*_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(budgets, "spent_by", away)
    error = refused()

    assert (error.status, error.code) == (503, "spending_unknown")
    assert_nothing_left(sluice)


def test_a_refusal_leaves_no_part_of_a_bulk(sluice: Broker) -> None:
    cheap_price()
    make_budget("0.02")
    items = [factories.make_submission(body=BODY) for _ in range(3)]
    with pytest.raises(errors.Rejected):
        submission.submit_many(caller=factories.make_caller(), items=items)

    assert_nothing_left(sluice)
    assert len(submission.submit_many(caller=factories.make_caller(), items=items[:2])) == 2


def test_the_control_worker_holds_the_figures_against_the_database(sluice: Broker) -> None:
    make_price()
    make_budget("1000")
    key, _ = factories.make_key()
    make_budget("10", api_key=key)
    now = datetime.now(UTC)
    for api_key_id in (None, key.pk):
        _, token = factories.make_running_job(api_key_id=api_key_id)
        lifecycle.apply([factories.make_success(token)], now=now)
    maintenance.count_spending(now)
    cost = 10 * 150 + 7 * 600
    month = charges.month_of(now.date())
    owners = ["tenant=default", f"key={key.prefix}"]

    assert [sluice.spending(owners, month)[owner].spent for owner in owners] == [2 * cost, cost]
    found = {spending.key: spending.spent_nano for spending in budgets.spending("default", now)}
    assert found == {"": 2 * cost, key.prefix: cost}
    assert budgets.spent_by([Budget("default", "sk-other", 0)], month) == {"key=sk-other": 0}


def test_a_budget_keeps_no_room_for_a_job_that_is_nowhere(sluice: Broker) -> None:
    cheap_price()
    make_budget("0.02")
    job = submit(body=BODY)
    month = charges.month_of(charges.day_of(job.created_at))
    sluice.client.delete(f"{sluice.prefix}e:".encode() + job.id.bytes)
    Job.objects.all().delete()

    assert Reconciler().run(datetime.now(UTC)).unreserved == 1
    assert sluice.spending(["tenant=default"], month)["tenant=default"].reserved == 0


def test_without_budgets_nothing_is_counted(sluice: Broker) -> None:
    assert maintenance.count_spending(datetime.now(UTC)) == 0
