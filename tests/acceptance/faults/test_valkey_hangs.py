"""Valkey hangs: it takes connections and answers nothing. How often each waits for it: `test_silent_redis`."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = pytest.mark.once

SHOWN = (
    *("/dashboard/", "/dashboard/board/", "/admin/", "/admin/inference/tier/", "/admin/inference/queuelimit/"),
    *("/admin/inference/servedmodel/", "/api/v1/jobs/", "/api/v1/workers/"),
)
"""What the database knows is shown."""
REFUSED = ("/api/v1/queues/",)


@pytest.fixture
def browser(workerless: Stack) -> Iterator[httpx.Client]:
    """Of the stack's admin, who has the API key too."""
    with workerless.client(follow_redirects=True) as browser:
        browser.get("/admin/login/")
        form = {
            "username": workerless.access["admin_user"],
            "password": workerless.access["admin_password"],
            "csrfmiddlewaretoken": browser.cookies["csrftoken"],
        }
        browser.post("/admin/login/", data=form, headers={"Referer": workerless.base_url}).raise_for_status()
        yield browser


@pytest.fixture
def hanging(workerless: Stack) -> Iterator[None]:
    """A job waits, and the server that could say why does not answer."""
    [job_id] = fleet.submit(workerless, 1)
    os.kill(workerless.pid("valkey"), signal.SIGSTOP)
    yield
    os.kill(workerless.pid("valkey"), signal.SIGCONT)
    with workerless.client() as client:
        until(lambda: client.get("/api/v1/queues/").status_code == 200, what="it is known to be back")
        client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()


def test_pages_show_what_the_database_knows(browser: httpx.Client, hanging: None) -> None:
    expected = dict.fromkeys(SHOWN, 200) | dict.fromkeys(REFUSED, 503)
    with ThreadPoolExecutor(len(expected)) as people:
        answers = dict(zip(expected, people.map(browser.get, expected), strict=True))
    assert {path: answer.status_code for path, answer in answers.items()} == expected


def test_what_is_submitted_is_refused_and_told_when_to_come_back(
    workerless: Stack, browser: httpx.Client, hanging: None
) -> None:
    messages = [{"role": "user", "content": "Hello"}]
    asked = {"model": fleet.model(workerless), "messages": messages, "max_tokens": 2}
    answer = browser.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
