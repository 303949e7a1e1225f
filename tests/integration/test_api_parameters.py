"""Query parameters and methods that an address takes, and those that it does not."""

import uuid

import pytest

from inference.models import Job
from tests import factories
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("jobs/?status=", "status: must be one of queued, spilled, "),
        ("jobs/?tier=", "tier: must be one of bulk, realtime, standard, not ''"),
        ("jobs/?model=", f"model: must be one of {factories.MODEL}, not ''"),
        ("jobs/?limit=501", "limit: must be a whole number from 1 to 500, not '501'"),
        ("jobs/?limit=1.5", "limit: must be a whole number from 1 to 500, not '1.5'"),
        ("jobs/?limit=", "limit: must be a whole number from 1 to 500, not ''"),
        ("jobs/?cursor=", "cursor: must be a non-empty string, not ''"),
        ("usage/?from=yesterday", "from: must be a day, as 2026-11-30, not 'yesterday'"),
        ("usage/?to=2026-13-01", "to: must be a day, as 2026-11-30, not '2026-13-01'"),
        ("usage/?to=", "to: must be a day, as 2026-11-30, not ''"),
        ("usage/?group_by=", "group_by: must be names with commas between, of day, month, "),
        ("usage/?group_by=day,colour", "group_by: must be names with commas between, of day, month, "),
        ("usage.csv?to=2026-13-01", "to: must be a day, as 2026-11-30, not '2026-13-01'"),
    ],
)
def test_a_parameter_is_refused_with_its_rule_and_its_value(api: Api, address: str, told: str) -> None:
    answer = api.get(f"/api/v1/{address}")
    message = answer.json()["error"]["message"]
    assert (answer.status_code, message[: len(told)]) == (400, told)
    assert ", not '" in message


NO_PARAMETERS = ("/api/v1/queues/", "/api/v1/workers/", "/v1/models", f"/v1/models/{factories.MODEL}")


@pytest.mark.parametrize("path", [*NO_PARAMETERS, "/api/v1/jobs/", "/api/v1/usage/", "/api/v1/usage.csv"])
def test_a_parameter_that_an_address_does_not_take_is_refused_by_its_name(api: Api, path: str) -> None:
    answer = api.get(f"{path}?quene=bulk")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unknown_parameter", "quene")
    assert error["message"].startswith("quene: unknown parameter; ")
    assert api.get(f"{path}?api-version=2024-10-21").status_code == 200


def test_a_parameter_that_is_given_twice_is_refused(api: Api) -> None:
    error = api.get("/api/v1/jobs/?limit=1&limit=2").json()["error"]
    assert (error["param"], error["message"]) == ("limit", "limit: given 2 times; give it once")


@pytest.mark.parametrize("path", [*NO_PARAMETERS, "/api/v1/jobs/", "/api/v1/usage/", "/api/v1/usage.csv"])
def test_head_is_answered_as_get_without_a_body(api: Api, path: str) -> None:
    head, get = api.client.head(path), api.get(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]


def test_the_head_of_a_stream_does_not_wait_for_its_end(api: Api) -> None:
    head = api.client.head(f"/api/v1/jobs/{factories.make_job().id}/events/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Type"].startswith("text/event-stream")
    assert api.client.head(f"/api/v1/jobs/{uuid.uuid4()}/events/").status_code == 404


def test_the_methods_that_an_address_knows_are_told(api: Api) -> None:
    assert api.client.delete("/v1/models").headers["Allow"] == "GET, HEAD"
    assert api.client.head("/v1/chat/completions").headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("status=gone", "status"),
        ("status=queued&tier=%00", "tier"),
        ("tier=gold", "tier"),
        ("model=gpt-9", "model"),
        ("limit=-1", "limit"),
        ("limit=0", "limit"),
        ("limit=abc", "limit"),
        ("limit=501", "limit"),
        ("stauts=queued", "stauts"),
        ("%ff=1", ""),
    ],
)
def test_a_bad_filter_is_refused_by_name(api: Api, query: str, name: str) -> None:
    response = api.get(f"/api/v1/jobs/?{query}")
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(name)


@pytest.mark.parametrize("cursor", ["gone", "%ff", "zzz", "cD1nb25l"])  # "p=gone": a place, but no job's
def test_a_cursor_that_leads_nowhere_is_refused_by_name(api: Api, cursor: str) -> None:
    response = api.get(f"/api/v1/jobs/?cursor={cursor}")
    assert (response.status_code, response.json()["error"]["param"]) == (400, "cursor")


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/api/v1/jobs/", f"/api/v1/queues/{factories.MODEL}.bulk.long/pause/"]
)
@pytest.mark.parametrize("query", ["tier=bulk", "api-version=1&stream=true"])
def test_a_query_parameter_of_a_post_is_refused_by_its_name(api: Api, path: str, query: str) -> None:
    answer = api.post(f"{path}?{query}", factories.make_chat())
    error = answer.json()["error"]
    name = query.rsplit("&", maxsplit=1)[-1].partition("=")[0]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unknown_parameter", name)
    assert f"'{name}'" in error["message"]
    assert not Job.objects.exists()


def test_what_azure_clients_add_to_every_request_is_tolerated(api: Api) -> None:
    body = {"body": factories.make_chat()}
    assert api.post("/api/v1/jobs/?api-version=2024-10-21", body).status_code == 201
