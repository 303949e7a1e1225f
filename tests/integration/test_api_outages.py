"""What Sluice stands on goes away: nothing is accepted, and the client is told when to come back."""

import os
from typing import Any

import django.db
import httpx
import pytest

from inference import broker as broker_module
from inference import submission
from inference.broker import Broker
from inference.models import Job
from tests import factories
from tests.integration.api_server import Api, Hand, in_background

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"
NOBODY = "redis://127.0.0.1:1/0"


def expect_unavailable(response: httpx.Response) -> None:
    assert response.status_code == 503, response.text
    assert response.json()["error"]["type"] == "server_error"
    assert int(response.headers["Retry-After"]) >= 1


def test_without_redis_nothing_is_accepted(api: Api, sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Broker(broker_module.connect(NOBODY), prefix=sluice.prefix)
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): away})
    expect_unavailable(api.post(CHAT, factories.make_chat()))
    expect_unavailable(api.post(CHAT, factories.make_chat(stream=True)))
    expect_unavailable(api.post("/api/v1/jobs/", {"body": factories.make_chat()}))
    expect_unavailable(api.get("/api/v1/queues/"))
    assert Job.objects.count() == 0


def test_events_of_a_job_are_not_begun_without_redis(
    api: Api, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = api.post("/api/v1/jobs/", {"body": factories.make_chat()}).json()["id"]
    away = Broker(broker_module.connect(NOBODY), prefix=sluice.prefix)
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): away})
    expect_unavailable(api.get(f"/api/v1/jobs/{job_id}/events/"))
    assert api.get(f"/api/v1/jobs/{job_id}/").json()["status"] == "queued"


def test_without_the_database_nothing_is_accepted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> Job:
        raise django.db.OperationalError("could not connect to server")

    monkeypatch.setattr(submission, "take", fail)
    response = api.post(CHAT, factories.make_chat())
    expect_unavailable(response)
    assert "could not connect" not in response.text


def test_a_fault_of_ours_is_a_500_in_the_envelope_without_detail(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> Job:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(submission, "take", fail)
    response = api.post(CHAT, factories.make_chat())
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in response.text


def test_waiting_clients_survive_that_redis_cannot_be_read_for_a_while(
    api: Api, hand: Hand, sluice: Broker
) -> None:
    with in_background(api) as call:
        claimed = hand.claim()
        sluice.client.client_kill_filter(_type="normal", skipme=True)
        hand.succeed(claimed, {"choices": [7]})
    assert call.response.json()["choices"] == [7]
