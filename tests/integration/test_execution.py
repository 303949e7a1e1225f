"""One claim's way: every end of the engine's work is one of a closed set, on record and told to the broker."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from django.db import OperationalError

from inference import group_commit, lifecycle, texts
from inference.broker import CHUNK, END, Claimed, Told
from inference.models import Job, JobEvent, Tier
from inference.states import FailureReason, JobEventKind, JobStatus, ReleaseReason
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import Hosted, answer, chunk, row
from tests.waiting import until
from workers import execution
from workers.engine import EngineAway, EngineCall, EngineFault, EngineGone, EngineRefused
from workers.execution import Abort
from workers.outcomes import Cancelled, Completed, Failed, Interrupted

hosted = hosts.hosted
DONE = b"data: [DONE]\n\n"


def test_an_answer_is_on_record_before_the_broker_forgets_the_job(hosted: Hosted) -> None:
    claimed = hosted.submit()
    assert isinstance(hosted.end(), Completed)
    job = row(claimed)
    assert job.status == JobStatus.SUCCEEDED
    assert job.result == answer().decode()
    assert (job.prompt_tokens, job.output_tokens, job.finish_reason) == (3, 2, "stop")
    assert (hosted.leases, hosted.waiting) == (0, 0)
    assert hosted.host.vitals.in_flight == 0


def test_the_engine_is_told_the_job_and_the_priority_of_its_tier(hosted: Hosted) -> None:
    claimed = hosted.submit()
    hosted.end()
    [call] = hosted.engine.calls
    assert call.request_id == str(claimed.token.job_id)
    assert call.priority == Tier.objects.get(name="standard").engine_priority
    assert json.loads(call.body) == json.loads(factories.REQUEST)


def test_a_refusal_fails_the_job_with_the_engines_words(hosted: Hosted) -> None:
    body = json.dumps({"error": {"message": "temperature must be at most 2"}}).encode()
    hosted.engine.reply = hosted.engine.raises(EngineRefused(400, body))
    claimed = hosted.submit()
    assert hosted.end() == Failed(FailureReason.BAD_REQUEST, "temperature must be at most 2")
    assert (row(claimed).status, row(claimed).error_code) == (JobStatus.FAILED, "bad_request")
    assert hosted.leases == 0


@pytest.mark.parametrize("error", [EngineFault("it answered 500"), RuntimeError("a bug of ours")])
def test_a_fault_fails_the_job(hosted: Hosted, error: Exception) -> None:
    hosted.engine.reply = hosted.engine.raises(error)
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_ERROR


def test_an_answer_that_is_no_completion_fails_the_job(hosted: Hosted) -> None:
    async def reply(_call: EngineCall) -> bytes:
        return b"<html>"

    hosted.engine.reply = reply
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_ERROR


def test_a_job_that_runs_too_long_fails_and_leaves_the_engine(hosted: Hosted) -> None:
    hurried = factories.make_tier_limits(run_timeout_seconds=0.05)
    hosted.limits = factories.make_limits(tiers={"standard": hurried})
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_code == FailureReason.RUN_TIMEOUT
    assert hosted.engine.aborted == 1


def test_a_job_whose_engine_is_gone_goes_back_at_no_cost_of_an_attempt(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    claimed = hosted.submit()
    assert hosted.end() == Interrupted(ReleaseReason.ENGINE_CRASH)
    job = row(claimed)
    assert (job.status, job.attempts, job.engine_crashes) == (JobStatus.QUEUED, 0, 1)
    assert (hosted.leases, hosted.waiting) == (0, 1)
    until(lambda: hosted.host.room.credit().sequences)  # the engine answered after all: the gate is open again


def test_a_job_that_an_engine_elsewhere_never_saw_is_not_counted_as_there_when_it_went(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineAway("cannot be reached"))
    claimed = hosted.submit()
    assert hosted.end() == Interrupted(ReleaseReason.ENGINE_UNREACHABLE)
    job = row(claimed)
    assert (job.status, job.attempts, job.engine_crashes) == (JobStatus.QUEUED, 0, 0)
    until(lambda: hosted.host.room.credit().sequences)


def suspect_of_two_crashes(hosted: Hosted) -> Claimed:
    job = hosted.publish()
    Job.objects.filter(id=job.id).update(engine_crashes=2)
    return hosted.claim()


def test_the_third_crash_under_a_job_fails_it(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.raises(EngineGone("lost"))
    claimed = hosted.run(suspect_of_two_crashes(hosted))
    hosted.end()
    assert row(claimed).error_code == FailureReason.ENGINE_CRASH
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_job_that_saw_two_crashes_runs_alone_and_nothing_is_claimed_meanwhile(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    ordinary = hosted.submit()
    until(lambda: hosted.engine.running)
    suspect = hosted.run(suspect_of_two_crashes(hosted))
    until(lambda: hosted.host.room.credit().sequences == 0)
    assert len(hosted.engine.calls) == 1
    hosted.host.abort(ordinary.token, Abort.DRAIN)
    until(lambda: len(hosted.engine.calls) == 2)
    assert hosted.host.room.credit().sequences == 0
    hosted.host.abort(suspect.token, Abort.DRAIN)
    until(lambda: hosted.host.room.credit().sequences)


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


def test_a_stream_is_passed_on_as_it_came_but_for_the_counts_nobody_asked_for(hosted: Hosted) -> None:
    usage = b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}\n\n'
    pieces = [chunk("a"), chunk("b", "stop"), usage, DONE]
    hosted.engine.pieces = hosted.engine.says(*pieces)
    claimed = hosted.submit(streamed=True)
    assert isinstance(hosted.end(), Completed)
    assert json.loads(hosted.engine.calls[0].body)["stream_options"] == {"include_usage": True}
    heard = hosted.broker.stream(claimed.token.job_id)
    output = b"".join(event.data for event in heard if event.kind == CHUNK)
    assert output == pieces[0] + pieces[1] + DONE
    assert [event.kind for event in heard][-2:] == [END, JobStatus.SUCCEEDED]
    assert (row(claimed).output_tokens, row(claimed).prompt_tokens) == (9, 3)
    assert row(claimed).first_token_at is not None


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([chunk("a")], JobStatus.QUEUED),  # the connection ended without the end mark: the engine fell
        ([], JobStatus.QUEUED),
        ([chunk("a"), b'data: {"error": {"message": "x"}}\n\n', DONE], JobStatus.FAILED),
    ],
)
def test_a_stream_that_does_not_end_well_does_not_succeed(
    hosted: Hosted, pieces: list[bytes], status: JobStatus
) -> None:
    hosted.engine.pieces = hosted.engine.says(*pieces)
    claimed = hosted.submit(streamed=True)
    hosted.end()
    assert row(claimed).status == status


def test_a_stream_whose_lease_is_anothers_is_aborted_at_its_next_output(hosted: Hosted) -> None:
    gone_on = asyncio.Event()

    async def pieces(call: EngineCall) -> AsyncGenerator[bytes, None]:
        yield chunk("a")
        await gone_on.wait()
        yield chunk("b")
        await hosted.engine.forever(call)

    hosted.engine.pieces = pieces
    claimed = hosted.submit(streamed=True)
    until(lambda: hosted.broker.stream(claimed.token.job_id))
    lifecycle.apply([lifecycle.Release(claimed.token, ReleaseReason.LEASE_EXPIRED)])
    hosted.broker.release(claimed.token)
    hosted.host._loop.call_soon_threadsafe(gone_on.set)
    hosted.end()
    assert hosted.engine.aborted == 1
    assert row(claimed).status == JobStatus.QUEUED


@pytest.mark.parametrize("why", [Abort.DRAIN, Abort.LOST])
def test_a_whole_answer_is_kept_although_its_end_cannot_be_passed_on(hosted: Hosted, why: Abort) -> None:
    tell = hosted.host._around.streams.tell  # type: ignore[union-attr]
    ending = asyncio.Event()

    async def tell_but_no_end(*args: Any, said: int, kind: str = CHUNK) -> Told:
        if kind == END:
            ending.set()
            await asyncio.Event().wait()
        return await tell(*args, said=said, kind=kind)

    hosted.host._around.streams.tell = tell_but_no_end  # type: ignore[union-attr, method-assign]
    claimed = hosted.submit(streamed=True)
    until(ending.is_set)
    hosted.host.abort(claimed.token, why)
    assert isinstance(hosted.end(), Completed)
    assert row(claimed).status == JobStatus.SUCCEEDED
    assert hosted.leases == 0


@pytest.mark.parametrize("lost", [Told.REFUSED, Told.FORGOTTEN])
def test_a_stream_that_redis_forgot_at_its_last_moment_keeps_its_answer(hosted: Hosted, lost: Told) -> None:
    tell = hosted.host._around.streams.tell  # type: ignore[union-attr]

    async def tell_but_not_the_end(*args: Any, said: int, kind: str = CHUNK) -> Told:
        return lost if kind == END else await tell(*args, said=said, kind=kind)

    hosted.host._around.streams.tell = tell_but_not_the_end  # type: ignore[union-attr, method-assign]
    claimed = hosted.submit(streamed=True)
    hosted.end()
    assert row(claimed).status == JobStatus.SUCCEEDED
    assert row(claimed).attempts == 1


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


def test_an_answer_of_what_no_database_holds_is_mended_and_stored(hosted: Hosted) -> None:
    # Half of a pair, as an engine sends it that cuts its output between the two: not to be had in UTF-8.
    hosted.engine.pieces = hosted.engine.says(chunk("a\0 \ud83d", "st\0op"), DONE)
    claimed = hosted.submit(streamed=True)
    assert isinstance(hosted.end(), Completed)
    choice = json.loads(row(claimed).result)["choices"][0]
    assert choice["message"]["content"] == "a\0 \ufffd"
    assert (row(claimed).status, row(claimed).finish_reason) == (JobStatus.SUCCEEDED, "st\ufffdop")


async def _half_a_pair(_call: EngineCall) -> bytes:
    return rb"""{"choices": [{"text": "\ud83d \u0000", "finish_reason": "a reason longer than its column is"}],
        "usage": {"prompt_tokens": 99999999999, "completion_tokens": -3}}"""


def test_a_plain_answer_is_mended_likewise(hosted: Hosted) -> None:
    hosted.engine.reply = _half_a_pair
    claimed = hosted.submit(prompt_tokens=10)
    assert isinstance(hosted.end(), Completed)
    job = row(claimed)
    assert json.loads(job.result)["choices"][0]["text"] == "\ufffd \0"
    assert job.finish_reason == "a reason longer than its column "
    assert (job.prompt_tokens, job.output_tokens) == (10, None)


def test_the_engines_refusal_is_stored_whatever_it_says(hosted: Hosted) -> None:
    said = rb'{"error": {"message": "no \u0000 and \udc00"}}'
    hosted.engine.reply = hosted.engine.raises(EngineRefused(400, said))
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_message == "no \ufffd and \ufffd"


def test_an_answer_that_the_database_refuses_all_the_same_fails_the_job_at_once(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "sound", lambda text: text)
    hosted.engine.pieces = hosted.engine.says(chunk("\ud83d", "stop"), DONE)
    claimed = hosted.submit(streamed=True)
    assert hosted.end() == Failed(FailureReason.ENGINE_ERROR, "The result could not be stored.")
    assert (row(claimed).status, row(claimed).attempts) == (JobStatus.FAILED, 1)
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_result_outlives_a_database_that_is_away(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", ())
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (0.01, 0.01))
    tries = iter(range(100))

    def apply(changes: list[lifecycle.Change]) -> list[lifecycle.Applied]:
        if isinstance(changes[0], lifecycle.Succeed) and next(tries) < 3:
            raise OperationalError("away")
        return lifecycle.apply(changes)

    hosted.host._around.commits._apply = apply  # type: ignore[union-attr]
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).status == JobStatus.SUCCEEDED
    assert JobEvent.objects.filter(kind=JobEventKind.RUNNING).count() == 1


def test_a_host_that_stops_gives_back_what_runs(hosted: Hosted) -> None:
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit()
    until(lambda: hosted.engine.running)
    hosted.host.stop()
    assert row(claimed).status == JobStatus.QUEUED
    assert hosted.waiting == 1
    assert hosted.engine.exited.is_set()
