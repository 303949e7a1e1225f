"""Large bodies at once: what finds no room is told to come back, and nothing of it is held."""

import gc
import json
import socket
import uuid

import orjson
import pytest

from inference.api import intake
from inference.api.intake import Intake
from inference.models import Job
from project import asgi
from tests import factories, waiting
from tests.integration.api_server import Api, read_until

pytest_plugins = ["tests.integration.api_fixtures"]
pytestmark = pytest.mark.once

CHAT, JOBS = "/v1/chat/completions", "/api/v1/jobs/"
LARGE = 4 * intake.SMALL_BYTES


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> Intake:
    """Room for one large body."""
    room = Intake(LARGE + LARGE // 2)
    monkeypatch.setattr(asgi.api, "_intake", room)
    monkeypatch.setattr(intake, "WAIT_SECONDS", 0.05)
    return room


def large_chat() -> dict[str, object]:
    return factories.make_chat(metadata={"note": "x" * LARGE})


def half_a_request(api: Api) -> socket.socket:
    fields = ("Host: test", f"Authorization: Bearer {api.key}", f"Content-Length: {LARGE}")
    head = "\r\n".join((f"POST {CHAT} HTTP/1.1", *fields, "", "{"))
    connection = socket.create_connection(("127.0.0.1", api.port), timeout=waiting.PATIENCE_SECONDS)
    connection.sendall(head.encode())
    return connection


def test_a_large_body_without_room_is_refused_and_a_small_one_is_not(api: Api, room: Intake) -> None:
    with half_a_request(api):
        waiting.until(lambda: room.free < LARGE)
        with half_a_request(api) as second:
            answer = read_until(second, b"}}")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 2" in answer
        assert b'"code": "busy"' in answer
        assert api.post(JOBS, {"body": factories.make_chat()}).status_code == 201
    waiting.until(lambda: room.free > LARGE)
    assert api.post(JOBS, {"body": large_chat()}).status_code == 201
    waiting.until(lambda: room.free > LARGE)


def test_a_body_without_a_length_is_counted_too(api: Api, room: Intake) -> None:
    room.free = LARGE
    body = json.dumps({"body": large_chat()}).encode()
    response = api.client.post(JOBS, content=(body[i : i + 9999] for i in range(0, len(body), 9999)))
    assert (response.status_code, response.json()["error"]["code"]) == (503, "busy")
    assert Job.objects.count() == 0


def test_a_call_that_waits_for_its_answer_holds_no_room(api: Api, room: Intake) -> None:
    connection = api.connect(CHAT, large_chat())
    waiting.until(lambda: Job.objects.count() == 1)
    waiting.until(lambda: room.free > LARGE)
    assert api.post(JOBS, {"body": large_chat()}).status_code == 201
    connection.close()


def test_a_refused_body_is_gone_at_once_and_not_with_the_next_collection(api: Api) -> None:
    mark = f"mark {uuid.uuid4()}"
    body = orjson.dumps(factories.make_chat(metadata=[mark], temperature=9))
    gc.disable()
    try:
        assert api.client.post(CHAT, content=body).status_code == 400
        waiting.until(lambda: not any(type(thing) is list and thing == [mark] for thing in gc.get_objects()))
    finally:
        gc.enable()
