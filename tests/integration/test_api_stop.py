"""A web process that is stopped closes the calls that are still open: each is told, and its job cancelled."""

import contextlib

import pytest

from inference.models import Job
from tests import factories, waiting
from tests.integration.api_server import Api, Hand, read_until, serve

pytest_plugins = ["tests.integration.api_fixtures"]

CHAT = "/v1/chat/completions"


def test_what_a_stop_cuts_short_is_told_so_and_cancelled_before_the_server_is_gone(
    api: Api, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    with contextlib.ExitStack() as opened:
        with serve() as port:
            server = Api(port, api.key)
            opened.callback(server.client.close)
            runs = opened.enter_context(server.connect(CHAT, factories.make_chat()))
            hand.claim()
            streams = opened.enter_context(server.connect(CHAT, factories.make_chat(stream=True)))
            hand.say(hand.claim(), b"data: {}\n\n")
            read_until(streams, b"data: {}")
            waits = opened.enter_context(server.connect(CHAT, factories.make_chat(stream=True)))
            waiting.until(lambda: Job.objects.count() == 3)
            half = opened.enter_context(server.connect(CHAT, factories.make_chat(), left_out=1))
            server.get("/v1/models")  # by its answer the server has heard of the others

        assert set(Job.objects.values_list("status", flat=True)) == {"cancelled"}
        for connection in (runs, waits, half):
            answer = read_until(connection, b"}}")
            assert answer.startswith(b"HTTP/1.1 503")
            assert b'"code": "stopping"' in answer
            assert (b"x-sluice-job-id" in answer.lower()) == (connection is not half)
        assert b'"code":"stopping"' in read_until(streams, b"\r\n0\r\n\r\n")
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
