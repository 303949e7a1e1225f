"""The dashboard's page of usage and cost."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from inference import snapshot
from inference.api import authentication
from inference.broker import Broker
from inference.models import Budget, Usage
from tests import factories
from tests.integration import dashboard_pages
from tests.integration.api_server import Api
from tests.integration.dashboard_pages import browser_of, make_user

pytest_plugins = ["tests.integration.api_fixtures"]
pytestmark = pytest.mark.once

member = dashboard_pages.member

PAGE = "/dashboard/usage/"


def today() -> date:
    """By the calendar of the product; asked anew, since a run of the tests may pass midnight."""
    return datetime.now(UTC).date()


def use(tenant: str = "acme", **fields: Any) -> None:
    """What the tenant used today."""
    values: dict[str, Any] = {
        "day": today(),
        "api_key": "",
        "model": factories.MODEL,
        "tier": "standard",
        "jobs": 3,
        "prompt_tokens": 4321,
        "output_tokens": 10,
        "engine_ms": 1500,
        "cost_nano": 12_340_000_000,
    }
    Usage.objects.create(tenant=tenant, **values | fields)


def test_a_member_sees_what_the_tenant_used_and_cost_this_month(member: Client) -> None:
    use()
    use("default", cost_nano=99_000_000_000)
    page = member.get(PAGE).content.decode()

    assert "12.34" in page
    assert "4\u202f321" in page
    assert "99.00" not in page
    assert page.count("<rect ") >= 28
    assert "<span>12.34 USD</span><span>0</span>" in page, "the scale names its unit"
    assert "style=" not in page


def test_another_month_is_a_choice(member: Client) -> None:
    last_month = today().replace(day=1) - timedelta(days=1)
    use(day=last_month, jobs=777)

    assert "777" not in member.get(PAGE).content.decode()
    assert "777" in member.get(f"{PAGE}?month={last_month:%Y-%m}").content.decode()
    assert member.get(f"{PAGE}?month=may").status_code == 400


@pytest.mark.parametrize(
    ("month", "status"), [("0001-01", 200), ("9999-11", 200), ("9999-12", 400), ("0000-01", 400)]
)
def test_the_calendar_has_ends(member: Client, month: str, status: int) -> None:
    answer = member.get(f"{PAGE}?month={month}")
    assert answer.status_code == status
    told = "must be a month, as 2026-11" if status == 400 else "Nothing was used in"
    assert told in answer.content.decode()


def test_budgets_are_shown_with_what_is_spent(member: Client) -> None:
    use()
    Budget.objects.create(tenant_id="acme", monthly=Decimal(10))
    snapshot.forget()
    page = member.get(PAGE).content.decode()

    assert "12.34 of 10.00" in page
    assert "more jobs are refused" in page


def test_members_cannot_choose_everyone_and_operators_can(member: Client) -> None:
    use("default", jobs=777)
    staff = browser_of(make_user("root", is_staff=True, is_superuser=True))
    use("acme", jobs=888)

    assert "777" not in member.get(f"{PAGE}?tenant=*").content.decode()
    page = staff.get(f"{PAGE}?tenant=*").content.decode()
    assert "777" in page
    assert "888" in page
    assert "888" not in staff.get(PAGE).content.decode()


def test_a_stranger_is_sent_to_the_login(sluice: Broker) -> None:
    answer = Client().get(PAGE)

    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/login/")


def test_the_file_is_there_for_a_session_and_has_the_own_tenant_only(api: Api, member: Client) -> None:
    authentication.forget()
    use()
    use("default")
    cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={member.cookies[settings.SESSION_COOKIE_NAME].value}"}
    answer = api.get("/dashboard/streams/usage.csv", headers=cookie)

    assert [line.split(",")[1] for line in answer.text.splitlines()] == ["tenant", "acme"]
    assert api.get("/dashboard/streams/usage.csv", headers={"Authorization": ""}).status_code == 401
