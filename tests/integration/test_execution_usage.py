"""What a worker tells of the use of its engine."""

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from inference.models import Usage
from inference.states import JobStatus
from tests.integration import hosts
from tests.integration.hosts import Hosted, chunk, row
from tests.waiting import until
from workers.engine import EngineCall
from workers.execution import Abort
from workers.outcomes import Cancelled, Completed

hosted = hosts.hosted


def test_a_finished_jobs_time_in_the_engine_is_booked(hosted: Hosted) -> None:
    async def slow(_call: EngineCall) -> bytes:
        await asyncio.sleep(0.02)
        return hosts.answer()

    hosted.engine.reply = slow
    claimed = hosted.submit()

    assert isinstance(hosted.end(), Completed)
    booked = Usage.objects.get()
    assert booked.engine_ms == row(claimed).engine_ms >= 20
    assert booked.output_tokens == row(claimed).output_tokens


@pytest.mark.parametrize("streamed", [False, True])
def test_an_engine_gets_the_count_of_its_prompt_with_the_job(hosted: Hosted, *, streamed: bool) -> None:
    told: list[int | None] = []

    async def reply(call: EngineCall) -> bytes:
        told.append(call.prompt_tokens)
        return hosts.answer()

    async def pieces(call: EngineCall) -> AsyncGenerator[bytes, None]:
        told.append(call.prompt_tokens)
        yield chunk("a", finish="stop") + b"data: [DONE]\n\n"

    hosted.engine.reply, hosted.engine.pieces = reply, pieces
    claimed = hosted.submit(streamed=streamed)
    counted = row(claimed).prompt_tokens

    assert isinstance(hosted.end(), Completed)
    assert told == [counted]


def test_what_a_stream_brought_before_its_cancel_is_booked(hosted: Hosted) -> None:
    heard = threading.Event()

    async def endless(call: EngineCall) -> AsyncGenerator[bytes, None]:
        for word in ("a", "b", "c"):
            yield chunk(word)
        heard.set()
        await hosted.engine.forever(call)

    hosted.engine.pieces = endless
    claimed = hosted.submit(streamed=True)
    until(heard.is_set)
    hosts.cancel(row(claimed))
    hosted.host.abort_job(claimed.token.job_id, Abort.CANCELLED)

    assert hosted.end() == Cancelled()
    booked = Usage.objects.get()
    assert (row(claimed).status, row(claimed).output_tokens) == (JobStatus.CANCELLED, 3)
    assert (booked.jobs, booked.prompt_tokens, booked.output_tokens) == (1, row(claimed).prompt_tokens, 3)
    assert hosted.leases == 0
