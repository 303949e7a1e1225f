"""Celery's own record of a job is closed whatever the end: nothing piles up in a worker that runs for months."""

from typing import Any

import celery.worker.request
import celery.worker.state
import pytest
from kombu.transport.virtual import base as virtual

from inference.states import FailureReason, ReleaseReason
from project.celery import app
from tests.unit.test_envelope import make_claimed
from workers import bookkeeping, envelope
from workers.outcomes import Cancelled, Completed, Failed, Interrupted, Outcome

state: Any = celery.worker.state
Request: Any = celery.worker.request.Request
Message: Any = virtual.Message
DONE = Completed(result="{}", finish_reason="stop", prompt_tokens=1, output_tokens=7)


class Channel:
    """What a message needs of its channel to be acknowledged."""

    no_ack_consumers = None

    def __init__(self) -> None:
        self.acknowledged: list[str] = []

    def decode_body(self, body: str, _encoding: str | None) -> str:
        return body

    def basic_ack(self, delivery_tag: str, **_: object) -> None:
        self.acknowledged.append(delivery_tag)


class Events:
    """Hears what Flower would."""

    enabled = True

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.heard.append((kind, fields))


def accepted(events: Events, channel: Channel) -> Any:
    """A request of Celery's as it is while its job runs."""
    app.loader.import_default_modules()
    made = Message(envelope.message(make_claimed()), channel=channel)
    request = Request(
        made,
        on_ack=made.ack_log_error,
        app=app,
        task=app.tasks[envelope.RUN_JOB],
        eventer=events,
        hostname="worker-1@test",
    )
    state.task_reserved(request)
    request.on_accepted(pid=1, time_accepted=0.0)
    return request


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (DONE, "task-succeeded"),
        (Failed(FailureReason.ENGINE_ERROR, "the prompt was: secret"), "task-failed"),
        (Cancelled(), "task-revoked"),
        (Interrupted(ReleaseReason.DRAIN), "task-rejected"),
        (None, "task-rejected"),
    ],
)
def test_every_end_is_acknowledged_told_and_forgotten(outcome: Outcome | None, kind: str) -> None:
    events, channel = Events(), Channel()
    request = accepted(events, channel)
    assert request in state.active_requests
    bookkeeping.close(request, outcome, seconds=1.5)
    assert channel.acknowledged == [request.id]
    assert [name for name, _ in events.heard] == ["task-started", kind]
    assert "secret" not in str(events.heard)
    assert request.id not in state.requests
    assert request not in state.active_requests
    assert request not in state.reserved_requests


def test_flower_sees_how_a_job_ended_and_how_long_it_took() -> None:
    events = Events()
    bookkeeping.close(accepted(events, Channel()), DONE, seconds=1.5)
    assert events.heard[-1][1]["runtime"] == 1.5
    assert events.heard[-1][1]["result"] == "stop, 7 tokens"
