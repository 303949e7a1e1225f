"""A browser follows a job."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import User

from inference import executor
from tests import factories
from tests.integration import dashboard_pages
from tests.integration.api_server import Api, Hand
from tests.integration.dashboard_pages import browser_of, make_user

pytest_plugins = ["tests.integration.api_fixtures"]

no_broadcast = dashboard_pages.no_broadcast


def session_of(user: User) -> dict[str, str]:
    """The cookie of one who logged in."""
    return {
        "Cookie": f"{settings.SESSION_COOKIE_NAME}={browser_of(user).cookies[settings.SESSION_COOKIE_NAME].value}"
    }


@pytest.fixture
def ada(api: Api) -> Iterator[httpx.Client]:
    """A browser with a session, of one who works for the default tenant."""
    with httpx.Client(
        base_url=api.url, headers=session_of(make_user("ada", tenant="default")), timeout=30
    ) as client:
        yield client


def submitted(api: Api, **fields: Any) -> str:
    body = factories.make_chat(stream=True, **fields)
    return str(api.post("/api/v1/jobs/", {"body": body}).json()["id"])


def test_a_session_follows_a_job_to_its_end(api: Api, ada: httpx.Client, echo: None) -> None:
    answer = ada.get(f"/dashboard/streams/{submitted(api, content='one two')}/")

    assert answer.headers["content-type"] == "text/event-stream"
    assert "one " in answer.text
    assert '"state":"succeeded"' in answer.text


def test_nobody_follows_without_a_session_or_another_tenants_job(api: Api, ada: httpx.Client) -> None:
    path = f"/dashboard/streams/{submitted(api)}/"
    factories.make_tenant("acme")
    other = session_of(make_user("eve", tenant="acme"))
    none = session_of(make_user("new"))

    assert httpx.get(api.url + path).status_code == 401
    assert httpx.get(api.url + path, headers={"Cookie": "sessionid=forged"}).status_code == 401
    assert httpx.get(api.url + path, headers=none).status_code == 403
    assert ada.get(path, headers=other).status_code == 404


def test_an_open_stream_holds_no_thread(api: Api, ada: httpx.Client, hand: Hand) -> None:
    path = f"/dashboard/streams/{submitted(api)}/"
    threads = threading.active_count()
    with ExitStack() as streams:
        for _ in range(5 * executor.THREADS):
            streams.enter_context(ada.stream("GET", path))

        # The pool makes its threads when it likes, but no more than these.
        assert threading.active_count() <= threads + executor.THREADS
