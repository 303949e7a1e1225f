"""Usage and cost by the native API."""

import csv
import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings

from inference import snapshot, usage
from inference.models import ApiKey, Budget, Usage
from tests import factories
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]

USAGE = "/api/v1/usage/"
CSV = "/api/v1/usage.csv"


def use(day: str = "2026-11-03", **fields: Any) -> Usage:
    """A row of usage of the default tenant."""
    values: dict[str, Any] = {
        "day": date.fromisoformat(day),
        "tenant": "default",
        "api_key": "",
        "model": factories.MODEL,
        "tier": "standard",
        "jobs": 1,
        "prompt_tokens": 100,
        "output_tokens": 10,
        "engine_ms": 1500,
        "cost_nano": 1_000_000_001,
    }
    return Usage.objects.create(**values | fields)


def ask(api: Api, query: str = "from=2026-11-01&to=2026-11-30") -> Any:
    return api.get(f"{USAGE}?{query}").json()


def lines(api: Api, query: str = "from=2026-11-01&to=2026-11-30") -> list[list[str]]:
    return list(csv.reader(io.StringIO(api.get(f"{CSV}?{query}").text)))


def test_usage_is_summed_up_by_day_and_exact_to_the_last_billionth(api: Api) -> None:
    use("2026-11-03")
    use("2026-11-03", tier="bulk")
    use("2026-11-30", cost_nano=500_000_000)
    use("2026-12-01")
    found = ask(api)

    assert (found["from"], found["to"], found["time_zone"], found["group_by"]) == (
        *("2026-11-01", "2026-11-30", "UTC"),
        ["day"],
    )
    assert [(row["day"], row["jobs"], row["cost"]) for row in found["rows"]] == [
        ("2026-11-03", 2, "2.000000002"),
        ("2026-11-30", 1, "0.50"),
    ]
    assert found["total"] == {
        "jobs": 3,
        "prompt_tokens": 300,
        "output_tokens": 30,
        "engine_seconds": 4.5,
        "cost": "2.500000002",
    }
    assert found["currency"] == settings.CURRENCY


def test_usage_is_grouped_as_asked(api: Api) -> None:
    key = ApiKey.objects.get()
    use(api_key=key.prefix)
    use("2026-11-04", api_key=key.prefix, tier="bulk")
    use("2026-10-04", api_key="sk-deleted0")
    found = ask(api, "from=2026-10-01&to=2026-11-30&group_by=month,key")

    assert [(row["month"], row["key"], row["key_name"], row["jobs"]) for row in found["rows"]] == [
        ("2026-10-01", "sk-deleted0", "", 1),
        ("2026-11-01", key.prefix, "test", 2),
    ]


def test_a_key_sees_its_own_tenant_alone(api: Api) -> None:
    use()
    use(tenant="acme")
    mine = ask(api, "from=2026-11-01&to=2026-11-30&group_by=tenant")
    refused = api.get(f"{USAGE}?tenant=acme")

    assert [row["tenant"] for row in mine["rows"]] == ["default"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "operator_required")


def test_an_operators_key_sees_all_tenants_or_the_one_that_it_asks_for(api: Api) -> None:
    ApiKey.objects.update(is_operator=True)
    use()
    use(tenant="acme")
    everyone = ask(api, "from=2026-11-01&to=2026-11-30&group_by=tenant")
    one = ask(api, "from=2026-11-01&to=2026-11-30&group_by=tenant&tenant=acme")

    assert [row["tenant"] for row in everyone["rows"]] == ["acme", "default"]
    assert [row["tenant"] for row in one["rows"]] == ["acme"]


@pytest.mark.once
def test_what_cannot_be_answered_is_refused_and_named(api: Api) -> None:
    for query, param in (
        ("from=2026-11-02&to=2026-11-01", "from"),
        ("from=2024-11-02&to=2026-11-01", "from"),
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("form=2026-11-01", "form"),
    ):
        for answer in (api.get(f"{USAGE}?{query}"), api.get(f"{CSV}?{query}")):
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert api.get(f"{USAGE}?group_by=day,colour").json()["error"]["param"] == "group_by"


@pytest.mark.parametrize("first", ["0001-01-01", "9999-12-01"])
def test_both_ends_of_the_calendar_are_answered(api: Api, first: str) -> None:
    last = first[:-2] + "31"
    use(first)
    use(last)
    for query in (f"from={first}&to={last}", f"to={last}"):
        assert [row["day"] for row in ask(api, query)["rows"]] == [first, last]
        assert [row["month"] for row in ask(api, f"{query}&group_by=month")["rows"]] == [first]
        assert [row[0] for row in lines(api, query)[1:]] == [first, last]
    assert api.get(f"{USAGE}?from={first}").status_code == 400, "more than thirteen months, or none"


@pytest.mark.once
def test_a_month_is_the_default(api: Api) -> None:
    found = ask(api, "to=2026-02-10")

    assert (found["from"], found["to"]) == ("2026-02-01", "2026-02-10")


@pytest.mark.once
def test_too_many_rows_are_refused_with_a_way_out(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MAX_ROWS", 1)
    use()
    use("2026-11-04")
    message = api.get(f"{USAGE}?from=2026-11-01&to=2026-11-30").json()["error"]["message"]

    assert "usage.csv" in message


def test_budgets_come_with_what_is_spent_of_them(api: Api) -> None:
    key, today = ApiKey.objects.get(), datetime.now(UTC).date()
    use(str(today), api_key=key.prefix, cost_nano=250_000_000)
    use(str(today), cost_nano=1)
    use(str(today - timedelta(days=365)), cost_nano=10**9)
    Budget.objects.create(tenant_id="default", monthly=Decimal(10))
    Budget.objects.create(tenant_id="default", api_key=key, monthly=Decimal("0.5"))
    factories.make_tenant("acme")
    Budget.objects.create(tenant_id="acme", monthly=Decimal(1))
    snapshot.forget()
    found = {budget["key"]: (budget["monthly"], budget["spent"]) for budget in ask(api, "")["budgets"]}

    assert found == {"": ("10.00", "0.250000001"), key.prefix: ("0.50", "0.25")}


def test_the_export_has_every_row_over_all_pages(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "PAGE", 2)
    use("2026-11-05", tier="bulk")
    use("2026-11-03")
    for tier in ("bulk", "realtime", "standard"):
        use("2026-11-04", tier=tier)
    use("2026-11-04", tenant="acme")
    heads, *rows = lines(api)

    assert heads[:3] == ["day", "tenant", "key"]
    assert [(row[0], row[5]) for row in rows] == [
        ("2026-11-03", "standard"),
        *[("2026-11-04", tier) for tier in ("bulk", "realtime", "standard")],
        ("2026-11-05", "bulk"),
    ]
    assert rows[0][6:] == ["1", "100", "10", "1.5", "1.000000001", settings.CURRENCY]


@pytest.mark.once
def test_a_name_that_a_spreadsheet_would_run_is_disarmed(api: Api) -> None:
    key = ApiKey.objects.get()
    use(api_key=key.prefix)
    for name in ("=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1", "\N{FULLWIDTH EQUALS SIGN}1"):
        ApiKey.objects.update(name=name)
        assert lines(api)[1][3] == f"'{name}"
    ApiKey.objects.update(name='a, "b" - c=d')
    assert lines(api)[1][3] == 'a, "b" - c=d'


@pytest.mark.once
def test_the_export_is_a_download_for_those_with_a_key(api: Api) -> None:
    answer = api.get(f"{CSV}?from=2026-11-01&to=2026-11-30")

    assert answer.headers["content-disposition"] == 'attachment; filename="usage-2026-11-01-2026-11-30.csv"'
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert api.get(CSV, headers={"Authorization": ""}).status_code == 401
