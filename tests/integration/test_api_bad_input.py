"""Whatever comes in: a 4xx that names field, limit and value; never a 500; nothing queued."""

import json
import socket
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from inference.api import handler
from inference.broker import Broker
from inference.models import Job
from tests import factories
from tests.integration.api_server import QUEUES, Api, read_until
from tests.waiting import PATIENCE_SECONDS

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
MIB = 1024 * 1024


@dataclass(frozen=True)
class Case:
    what: str
    body: bytes
    status: int
    param: str


def chat(content: str = "Hello", **fields: Any) -> bytes:
    return orjson.dumps(factories.make_chat(content, **fields))


BAD = [
    Case("no JSON", b"hello", 400, "body"),
    Case("nothing", b"", 400, "body"),
    Case("half a body", b'{"model": "m", "messages": [', 400, "body"),
    Case("an array", b"[]", 400, "body"),
    Case("invalid UTF-8", b'{"model": "\xff\xfe"}', 400, "body"),
    Case("nested without end", b'{"a":' * 5000, 400, "body"),
    Case("no messages", orjson.dumps({"model": factories.MODEL}), 400, "messages"),
    Case("empty messages", chat(messages=[]), 400, "messages"),
    Case("messages of a wrong type", chat(messages="hi"), 400, "messages"),
    Case("a message of a wrong type", chat(messages=[7]), 400, "messages[0]"),
    Case("an unknown role", chat(messages=[{"role": "king", "content": "hi"}]), 400, "messages[0].role"),
    Case("content of a wrong type", chat(messages=[{"role": "user", "content": 7}]), 400, "messages[0].content"),
    Case("no model", orjson.dumps({"messages": [{"role": "user", "content": "hi"}]}), 400, "model"),
    Case("a model of a wrong type", chat(model=["a"]), 400, "model"),
    Case("an unknown model", chat(model="gpt-9"), 404, "model"),
    Case("negative max_tokens", chat(max_tokens=-1), 400, "max_tokens"),
    Case("huge max_tokens", chat(max_tokens=10**9), 400, "max_tokens"),
    Case("max_tokens beyond 64 bits", b'{"model": "m", "max_tokens": 1' + b"0" * 400 + b"}", 400, ""),
    Case("max_tokens of a wrong type", chat(max_tokens="many"), 400, "max_tokens"),
    Case("a stream that is no boolean", chat(stream="yes"), 400, "stream"),
    Case("a temperature out of range", chat(temperature=99), 400, "temperature"),
    Case("an unknown tier", chat(service_tier="gold"), 400, "service_tier"),
    Case("an empty tier", chat(service_tier=""), 400, "service_tier"),
    Case("a tier of a wrong type", chat(service_tier=7), 400, "service_tier"),
    Case("a NUL", chat("a\x00b"), 400, "messages[0].content"),
    Case("a NUL in the model", chat(model="a\x00b"), 400, "model"),
    Case("a lone surrogate", chat("a@b").replace(b"@", b"\\ud800"), 400, "messages[0].content"),
    Case("a lone surrogate in a name", chat().replace(b'"model"', b'"\\ud800": 1, "model"'), 400, ""),
    Case("NaN", chat(temperature=1).replace(b'"temperature":1', b'"temperature":NaN'), 400, "temperature"),
    Case("ten megabytes", b'{"model": "' + b"a" * (10 * MIB) + b'"}', 413, "body"),
]


def test_bad_input_is_refused_by_name(api: Api, sluice: Broker, subtests: pytest.Subtests) -> None:
    for case in BAD:
        with subtests.test(case.what):
            response = api.client.post(CHAT, content=case.body, headers=JSON)
            assert response.status_code == case.status, response.text
            error = response.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["type"] == "invalid_request_error"
            assert error["param"] == case.param or not case.param
            assert str(error["message"]).startswith(case.param)
            assert_nothing_was_accepted(sluice)


def test_the_native_api_refuses_the_same_in_the_same_form(
    api: Api, sluice: Broker, subtests: pytest.Subtests
) -> None:
    for case in BAD:
        with subtests.test(case.what):
            wrapped = b'{"endpoint": "chat/completions", "body": ' + case.body + b"}"
            response = api.client.post("/api/v1/jobs/", content=wrapped, headers=JSON)
            assert response.status_code == case.status, response.text
            assert set(response.json()["error"]) == {"message", "type", "param", "code"}
            assert_nothing_was_accepted(sluice)


def test_a_body_without_a_length_is_measured_as_it_comes(api: Api, sluice: Broker) -> None:
    response = api.client.post(CHAT, content=(b"a" * MIB for _ in range(10)))
    assert response.status_code == 413
    message = response.json()["error"]["message"]
    assert "8388608" in message
    assert_nothing_was_accepted(sluice)


def test_too_large_a_body_is_refused_before_it_is_sent(api: Api) -> None:
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {api.key}\r\n"
        f"Content-Length: {10 * MIB}\r\nExpect: 100-continue\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(head.encode())
        assert read_until(connection, b"\r\n").startswith(b"HTTP/1.1 413")


def half_a_request(api: Api, path: str, *, key: str, size: int = MIB) -> socket.socket:
    """Announce a body, send a byte of it, and fall silent."""
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {key}\r\nContent-Length: {size}\r\n\r\n{{"
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=PATIENCE_SECONDS)
    connection.sendall(head.encode())
    return connection


@pytest.mark.parametrize("path", [CHAT, "/api/v1/jobs/", "/v1/nothing"])
def test_without_a_good_key_a_body_is_not_waited_for(api: Api, path: str) -> None:
    for key in ("", f"sk-{'a' * 8}.{'b' * 40}"):
        with half_a_request(api, path, key=key) as connection:
            assert read_until(connection, b"\r\n").startswith(b"HTTP/1.1 401")


def test_where_no_key_is_asked_for_no_large_body_is_taken(api: Api) -> None:
    with half_a_request(api, "/api/docs/", key="") as connection:
        assert read_until(connection, b"\r\n").startswith(b"HTTP/1.1 413")


def test_a_body_that_does_not_come_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "BODY_SECONDS", 0.05)
    with half_a_request(api, CHAT, key=api.key) as connection:
        answer = read_until(connection, b"}}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b'"code": "request_timeout"' in answer
        assert connection.recv(1) == b"", "the connection is closed"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/", 404, "not_found"),
        ("GET", "/v1/embeddings", 404, "not_found"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/api/v2/jobs/", 404, "not_found"),
        ("GET", "/api/v1/jobs/not-an-id/", 404, "not_found"),
        ("PUT", "/api/v1/jobs/", 405, "method_not_allowed"),
        ("POST", "/api/v1/queues/", 405, "method_not_allowed"),
    ],
)
def test_what_is_not_there_is_said_in_the_envelope(
    api: Api, method: str, path: str, status: int, code: str
) -> None:
    response = api.client.request(method, path)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("path", ["/v1/models", "/admin/"])
def test_a_websocket_is_refused_without_a_word_in_the_log(
    api: Api, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    response = api.get(path, headers={"Connection": "Upgrade", "Upgrade": "websocket", **key})
    assert response.status_code == 403
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("path", ["/v1/models", "/api/v1/jobs/", "/api/v1/queues/", "/api/v1/workers/"])
def test_without_a_key_nothing_is_told(api: Api, path: str) -> None:
    response = api.client.get(path, headers={"Authorization": ""})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "missing_api_key")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("key", [b"Bearer sk-\x80\xff", b"Basic YTpi", b"Bearer", b"Bearer " + b"a" * 9000])
def test_a_key_of_any_form_is_refused(api: Api, key: bytes) -> None:
    assert api.client.get("/v1/models", headers={b"Authorization": key}).status_code == 401


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"body": 7}, "body"),
        ({}, "body"),
        ({"endpoint": "embeddings", "body": {}}, "endpoint"),
        ({"teir": "bulk", "body": {}}, "teir"),
        ({"tier": "gold", "body": factories.make_chat()}, "tier"),
        ({"tier": "bulk", "body": factories.make_chat(service_tier="gold")}, "service_tier"),
        ({"tier": "bulk", "body": factories.make_chat(service_tier="priority")}, "service_tier"),
        (
            {"jobs": [{"tier": "bulk", "body": factories.make_chat(service_tier="default")}] * 2},
            "jobs[0].service_tier",
        ),
        ({"tier": 7, "body": factories.make_chat()}, "tier"),
        ({"tier": "\ud800", "body": factories.make_chat()}, "tier"),
        ({"tier": "a\x00", "body": factories.make_chat()}, "tier"),
        ({"jobs": []}, "jobs"),
        ({"jobs": 7}, "jobs"),
        ({"jobs": [7]}, "jobs[0]"),
        ({"jobs": [{"body": factories.make_chat()}, {"endpoint": 7, "body": {}}]}, "jobs[1].endpoint"),
        ({"jobs": [{"body": factories.make_chat()}, {"body": {}}]}, "jobs[1].messages"),
        ({"jobs": [{"body": factories.make_chat()}] * 1001}, "jobs"),
        ({"jobs": [{"body": factories.make_chat()}], "tier": "bulk"}, "tier"),
        ({"jobs": [{"body": factories.make_chat()}], "body": factories.make_chat()}, "body"),
        ({"jobs": [{"body": factories.make_chat(), "teir": "bulk"}]}, "jobs[0].teir"),
    ],
)
def test_a_bad_submission_is_refused_whole(api: Api, sluice: Broker, body: Any, param: str) -> None:
    response = api.client.post("/api/v1/jobs/", content=json.dumps(body), headers=JSON)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"].startswith(param)
    assert_nothing_was_accepted(sluice)


def test_two_tiers_are_told_with_both_names(api: Api) -> None:
    body = factories.make_chat(service_tier="priority")
    refused = api.post("/api/v1/jobs/", {"tier": "bulk", "body": body}).json()["error"]
    assert refused["message"] == (
        "service_tier 'priority' picks tier realtime, but tier is 'bulk': give one of the two"
    )
    assert api.post("/api/v1/jobs/", {"tier": "realtime", "body": body}).status_code == 201


CHAT_BODY = factories.make_chat()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            {"endpoint": "images", "body": {}},
            "endpoint: must be one of chat/completions, completions, not 'images'",
        ),
        ({"body": 7}, "body: must be a JSON object, not 7"),
        ({}, "body: must be given"),
        ({"tier": 7, "body": CHAT_BODY}, "tier: must be a string, not 7"),
        ({"tier": "", "body": CHAT_BODY}, "tier: must be a non-empty string, not ''"),
        ({"tier": "b" * 33, "body": CHAT_BODY}, f"tier: must have at most 32 characters, not '{'b' * 33}'"),
        (
            {"tier": "a\x00", "body": CHAT_BODY},
            "tier: must be text without NUL characters or lone surrogates, not",
        ),
        ({"jobs": []}, "jobs must be a list of 1 to 1000 jobs, not a list of 0"),
        ({"jobs": 7}, "jobs must be a list of 1 to 1000 jobs, not 7"),
        ({"jobs": [7]}, "jobs[0]: must be a JSON object, not 7"),
    ],
)
def test_a_field_is_refused_with_its_rule_and_its_value(api: Api, body: Any, told: str) -> None:
    assert api.post("/api/v1/jobs/", body).json()["error"]["message"].startswith(told)


@pytest.mark.parametrize("act", ["cancel", "retry"])
@pytest.mark.parametrize(("body", "name"), [({"reson": "late"}, "reson"), ([1], "body")])
def test_what_nobody_heeds_is_refused(api: Api, act: str, body: object, name: str) -> None:
    response = api.post(f"/api/v1/jobs/{factories.make_job().id}/{act}/", body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, name)


def test_a_host_that_cannot_stand_in_a_link_is_the_callers_fault(api: Api) -> None:
    for _ in range(2):
        factories.make_job()
    response = api.get("/api/v1/jobs/?limit=1", headers={"Host": "["})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "bad_request")


def assert_nothing_was_accepted(broker: Broker) -> None:
    assert Job.objects.count() == 0
    assert all(stats.jobs == 0 for stats in broker.stats(QUEUES))
