"""What a client of `/v1` reads of an answer that comes in parts."""

import uuid
from types import SimpleNamespace
from typing import Any

from inference.api.v1 import streams
from inference.broker.types import CHUNK, GAP, Event

JOB, CLAIM = uuid.uuid4(), uuid.uuid4()


async def test_a_gap_ends_the_stream_with_an_error_and_nothing_of_what_follows_it() -> None:
    call: Any = SimpleNamespace(is_settled=False)
    first, gap = Event("1-0", JOB, CHUNK, CLAIM, b"data: 1\n\n"), Event("7-0", JOB, GAP, None, b"")
    heard = [first, gap, Event("8-0", JOB, CHUNK, CLAIM, b"data: 8\n\n")]

    told = [piece async for piece in streams.relay(call, heard)]

    assert told[0] == b"data: 1\n\n"
    assert b'"output_lost"' in told[1]
    assert len(told) == 2
    assert call.is_settled, "the job goes on for its record"
