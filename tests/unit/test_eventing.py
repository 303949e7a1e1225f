"""Celery's events go out together, a moment after what they tell of."""

from typing import Any
from unittest.mock import Mock

import pytest
from celery.events.dispatcher import EventDispatcher
from kombu.asynchronous.timer import Timer

from workers import eventing
from workers.eventing import Flusher

dispatcher_class: Any = EventDispatcher


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What reached the connection, publish by publish."""
    found: list[Any] = []
    monkeypatch.setattr(dispatcher_class, "_publish", lambda _self, event, *_a, **_k: found.append(event))
    monkeypatch.setattr(eventing, "FLUSH_SECONDS", 0.0)
    return found


@pytest.fixture
def consumer() -> Any:
    """Celery's consumer, as far as events go."""
    dispatcher = dispatcher_class(None, app=Mock(), hostname="w", enabled=False, buffer_group=["task"])
    dispatcher.enabled, dispatcher.clock = True, Mock(forward=lambda: 1)
    return Mock(timer=Timer(), event_dispatcher=dispatcher)


def turn(timer: Any) -> None:
    """Do what is due, as the hub does."""
    while (entry := next(iter(timer))[1]) is not None:
        timer.apply_entry(entry)


def test_nothing_goes_out_before_the_timer_and_then_all_at_once(consumer: Any, sent: list[Any]) -> None:
    Flusher(consumer)
    for kind in ("task-received", "task-started"):
        consumer.event_dispatcher.send(kind, uuid="1")
    assert sent == []
    turn(consumer.timer)
    assert [[event["type"] for event in events] for events in sent] == [["task-received", "task-started"]]


def test_the_next_event_sets_the_timer_anew(consumer: Any, sent: list[Any]) -> None:
    Flusher(consumer)
    for _ in range(2):
        consumer.event_dispatcher.send("task-received", uuid="1")
        turn(consumer.timer)
    assert len(sent) == 2


def test_a_full_buffer_does_not_wait(consumer: Any, sent: list[Any]) -> None:
    Flusher(consumer)
    for _ in range(consumer.event_dispatcher.buffer_limit):
        consumer.event_dispatcher.send("task-received", uuid="1")
    assert len(sent) == 1


def test_the_last_events_go_out_when_the_worker_stops(consumer: Any, sent: list[Any]) -> None:
    flusher = Flusher(consumer)
    consumer.event_dispatcher.send("task-succeeded", uuid="1")
    flusher.flush()
    assert len(sent) == 1
