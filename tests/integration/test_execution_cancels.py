"""A claim that is taken away: cancelled, lost or given back, it leaves the engine and its row is right."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from inference import lifecycle
from inference.broker import CHUNK, END, Told
from inference.models import JobEvent
from inference.states import JobEventKind, JobStatus, ReleaseReason
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import Hosted, row
from tests.waiting import until
from workers.engine import EngineCall
from workers.execution import Abort
from workers.outcomes import Cancelled, Interrupted

hosted = hosts.hosted


def test_a_cancel_leaves_the_engine_and_the_row_as_cancelled(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    hosts.cancel(row(claimed))
    hosted.host.abort_job(claimed.token.job_id, Abort.CANCELLED)
    assert hosted.end() == Cancelled()
    assert hosted.engine.aborted == 1
    assert row(claimed).status == JobStatus.CANCELLED
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_cancel_that_was_swallowed_may_be_repeated(hosted: Hosted) -> None:
    swallowed = threading.Event()

    async def deaf_once(call: EngineCall) -> bytes:
        with contextlib.suppress(asyncio.CancelledError):
            await hosted.engine.forever(call)
        swallowed.set()
        return await hosted.engine.forever(call)

    hosted.engine.reply = deaf_once
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    hosts.cancel(row(claimed))
    hosted.host.abort_job(claimed.token.job_id, Abort.CANCELLED)
    until(swallowed.is_set)
    hosted.host.abort_job(claimed.token.job_id, Abort.CANCELLED)
    assert hosted.end() == Cancelled()
    assert hosted.leases == 0


def test_what_is_given_back_while_its_row_is_moved_never_reaches_the_engine(hosted: Hosted) -> None:
    is_moving, may_move = threading.Event(), threading.Event()

    def apply(changes: Sequence[lifecycle.Change]) -> list[lifecycle.Applied]:
        is_moving.set()
        assert may_move.wait(10)
        return lifecycle.apply(changes)

    hosted.host._around.commits._apply = apply  # type: ignore[union-attr]
    claimed = hosted.submit()
    until(is_moving.is_set)
    hosted.host.abort(claimed.token, Abort.DRAIN)
    until(lambda: hosted.host._executions)  # else the word of it would be lost
    may_move.set()
    assert hosted.end() == Interrupted(ReleaseReason.DRAIN)
    assert hosted.engine.calls == []
    assert (row(claimed).status, hosted.waiting) == (JobStatus.QUEUED, 1)


def test_a_job_cancelled_between_claim_and_start_never_reaches_the_engine(hosted: Hosted) -> None:
    job = hosted.publish()
    claimed = hosted.claim()
    hosts.cancel(job)
    hosted.run(claimed)
    assert hosted.end() is None
    assert hosted.engine.calls == []
    assert hosted.leases == 0


def test_a_cancel_that_comes_while_the_row_is_read_is_not_missed(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted.engine.reply = hosted.engine.forever
    job = hosted.publish()
    claimed = hosted.claim()
    hosted.run(claimed)
    hosted.host.abort(claimed.token, Abort.CANCELLED)  # before the commit of its start is back
    hosts.cancel(job)
    hosted.end()
    assert hosted.engine.running == 0
    assert hosted.leases == 0


def test_a_claim_whose_row_runs_under_another_claim_is_dropped(hosted: Hosted) -> None:
    job = hosted.publish()
    claimed = hosted.claim()
    lifecycle.apply([lifecycle.Start(factories.make_token(job.id), "worker-2@test")])
    hosted.run(claimed)
    assert hosted.end() is None
    assert hosted.engine.calls == []
    assert row(claimed).worker == "worker-2@test"


def test_a_result_that_comes_after_the_claim_was_lost_is_not_stored(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    lifecycle.apply([lifecycle.Release(claimed.token, ReleaseReason.LEASE_EXPIRED)])
    hosted.broker.release(claimed.token)
    hosted.host.abort(claimed.token, Abort.LOST)
    hosted.end()
    assert row(claimed).status == JobStatus.QUEUED
    assert (hosted.leases, hosted.waiting) == (0, 1)


def test_giving_back_costs_no_attempt(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    hosted.host.give_back()
    assert hosted.end() == Interrupted(ReleaseReason.DRAIN)
    assert (row(claimed).status, row(claimed).attempts) == (JobStatus.QUEUED, 0)
    assert hosted.waiting == 1


def test_a_claim_that_arrives_after_the_gate_shut_goes_back_untouched(hosted: Hosted) -> None:
    hosted.publish()
    claimed = hosted.claim()
    hosted.host.drain()
    hosted.run(claimed)
    hosted.end()
    assert hosted.waiting == 1
    assert not JobEvent.objects.filter(kind=JobEventKind.RUNNING).exists()


def test_a_cancel_wins_over_an_answer_that_was_not_yet_on_record(hosted: Hosted) -> None:
    async def tell(*_: Any, said: int, kind: str = CHUNK) -> Told:
        if kind == END:
            is_ending.set()
            await asyncio.Event().wait()
        return Told.HEARD

    is_ending = asyncio.Event()
    hosted.host._around.streams.tell = tell  # type: ignore[union-attr, method-assign]
    claimed = hosted.submit(streamed=True)
    until(is_ending.is_set)
    hosts.cancel(row(claimed))
    hosted.host.abort(claimed.token, Abort.CANCELLED)
    assert hosted.end() == Cancelled()
    assert row(claimed).status == JobStatus.CANCELLED


def test_a_host_that_stops_gives_back_what_runs(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    hosted.host.stop()
    assert row(claimed).status == JobStatus.QUEUED
    assert hosted.waiting == 1
    assert hosted.engine.exited.is_set()
