"""No address makes a page fail that asks the database for what is in it."""

import pytest
from django.contrib.auth import get_user_model
from django.test import AsyncClient, Client


@pytest.fixture
def browser(database: None) -> Client:
    admin = get_user_model().objects.create(username="admin", is_staff=True, is_superuser=True)
    client = Client()
    client.force_login(admin)
    return client


@pytest.mark.parametrize("query", ["?tenant__name=%00", "?status__exact=a%00b", "?q=%00", "%00/change/"])
@pytest.mark.parametrize("page", ["job", "jobevent", "tenant"])
def test_a_nul_in_an_address_is_refused(browser: Client, page: str, query: str) -> None:
    answer = browser.get(f"/admin/inference/{page}/{query}")
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "Back to the dashboard" in answer.content.decode()


@pytest.mark.parametrize("query", ["?q=%ED%A0%80", "?q=%25", "99999999999999999999/change/", "a_00b/change/"])
@pytest.mark.parametrize("page", ["job", "jobevent", "tenant"])
def test_what_is_merely_odd_is_looked_for(browser: Client, page: str, query: str) -> None:
    assert browser.get(f"/admin/inference/{page}/{query}").status_code in {200, 302}


async def test_the_asynchronous_server_refuses_it_likewise() -> None:
    assert (await AsyncClient().get("/admin/login/?next=%00")).status_code == 400
    assert (await AsyncClient().get("/no-page")).status_code == 404
