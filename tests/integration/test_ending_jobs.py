"""A job that the engine is done with makes room at once: the next one starts while its end is put on record."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import OperationalError

from inference import group_commit, lifecycle
from inference.states import JobStatus, ReleaseReason
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import Hosted, row
from tests.waiting import until
from workers import execution
from workers.engine import EngineGone
from workers.execution import Abort
from workers.outcomes import Completed, Interrupted

hosted = hosts.hosted
pytestmark = pytest.mark.once

SLOTS = 32
"""Of the seeded model."""


class Ends:
    """Commits that stop before an end until they are let on."""

    def __init__(self) -> None:
        self.held = 0
        self._may_pass = threading.Event()

    def apply(self, changes: list[lifecycle.Change]) -> list[lifecycle.Applied]:
        if is_end(changes):
            self.held += len(changes)
            assert self._may_pass.wait(20)
        return lifecycle.apply(changes)

    def let_on(self) -> None:
        self._may_pass.set()


def is_end(changes: list[lifecycle.Change]) -> bool:
    return any(isinstance(change, lifecycle.Succeed | lifecycle.Release) for change in changes)


def commit_by(hosted: Hosted, apply: Callable[[list[lifecycle.Change]], list[lifecycle.Applied]]) -> None:
    hosted.host._around.commits._apply = apply  # type: ignore[union-attr]


@pytest.fixture
def ends(hosted: Hosted) -> Iterator[Ends]:
    made = Ends()
    commit_by(hosted, made.apply)
    yield made
    made.let_on()


@pytest.mark.parametrize("streamed", [False, True])
def test_its_room_is_free_while_its_end_is_put_on_record_and_its_lease_is_held(
    hosted: Hosted, ends: Ends, *, streamed: bool
) -> None:
    free = hosted.host.room.credit()
    claimed = hosted.submit(streamed=streamed)
    until(lambda: ends.held)
    assert hosted.host.room.credit() == free
    assert (row(claimed).status, hosted.leases, hosted.ended) == (JobStatus.RUNNING, 1, [])
    ends.let_on()
    assert isinstance(hosted.end(), Completed)
    assert (row(claimed).status, hosted.leases) == (JobStatus.SUCCEEDED, 0)
    assert hosted.host.room.credit() == free


def test_a_streams_room_is_free_while_its_last_output_is_passed_on(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = hosted.host._around.streams  # type: ignore[union-attr]
    tell, may_pass, told = streams.tell, threading.Event(), threading.Event()

    async def slowly(*args: Any, **kwargs: Any) -> Any:
        told.set()
        await asyncio.to_thread(may_pass.wait, 20)
        return await tell(*args, **kwargs)

    monkeypatch.setattr(streams, "tell", slowly)
    claimed = hosted.submit(streamed=True)
    until(told.is_set)
    until(lambda: hosted.host.vitals.in_flight == 0)
    assert row(claimed).status == JobStatus.RUNNING
    may_pass.set()
    assert isinstance(hosted.end(), Completed)


def test_what_goes_back_to_its_queue_keeps_its_room_until_it_is_there(hosted: Hosted, ends: Ends) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    hosted.submit()
    until(lambda: ends.held)
    assert (hosted.host.vitals.in_flight, hosted.waiting) == (1, 0)
    ends.let_on()
    assert hosted.end() == Interrupted(ReleaseReason.ENGINE_CRASH)
    assert hosted.waiting == 1
    until(lambda: hosted.host.vitals.in_flight == 0)


def test_room_is_given_back_once_though_the_lease_is_lost_meanwhile(hosted: Hosted, ends: Ends) -> None:
    first = hosted.submit()
    until(lambda: ends.held)
    hosted.host.abort(first.token, Abort.LOST)
    other = hosted.run(hosted.claim(hosted.publish()))
    assert hosted.host.vitals.in_flight == 1
    hosted.engine.reply = hosted.engine.forever
    ends.let_on()
    hosted.end()
    until(lambda: hosted.engine.running)
    assert hosted.host.vitals.in_flight == 1
    hosted.host.abort(other.token, Abort.DRAIN)
    hosted.end(2)


def test_after_one_that_ran_alone_others_come_at_once(hosted: Hosted, ends: Ends) -> None:
    factories.publish(*factories.make_suspects(factories.make_job()))
    hosted.run(hosted.claim())
    until(lambda: ends.held)
    offered = hosted.host.room.credit()
    assert offered.sequences == SLOTS
    assert (offered.alone_ms or 0) > 0, "others have their turn first"
    ends.let_on()
    hosted.end()


def test_while_the_database_is_away_one_engine_full_ends_and_what_ends_then_keeps_its_room(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", ())
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (0.01, 0.01))
    readiness = hosted.host._readiness
    monkeypatch.setattr(readiness, "capacity", replace(readiness.capacity, sequences=2))
    is_away = threading.Event()
    is_away.set()

    def apply(changes: list[lifecycle.Change]) -> list[lifecycle.Applied]:
        if is_end(changes) and is_away.is_set():
            raise OperationalError("away")
        return lifecycle.apply(changes)

    commit_by(hosted, apply)
    for count in (1, 2, 3, 4):
        assert hosted.host.room.credit().sequences
        hosted.submit()
        until(lambda count=count: len(hosted.engine.calls) == count)  # type: ignore[misc]
        until(lambda count=count: hosted.host.vitals.in_flight == max(0, count - 2))  # type: ignore[misc]
    assert hosted.host.room.credit().sequences == 0
    is_away.clear()
    hosted.end(4)
    until(lambda: hosted.host.room.credit().sequences == 2)
    assert hosted.leases == 0
