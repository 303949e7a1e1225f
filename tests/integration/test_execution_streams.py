"""A stream is passed on as it comes, and its answer is kept though its end may be lost."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from inference import lifecycle
from inference.broker import CHUNK, END, Told
from inference.states import JobStatus, ReleaseReason
from tests.integration import hosts
from tests.integration.hosts import Hosted, chunk, row
from tests.waiting import until
from workers.engine import EngineCall
from workers.execution import Abort
from workers.outcomes import Completed

hosted = hosts.hosted
DONE = b"data: [DONE]\n\n"


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
