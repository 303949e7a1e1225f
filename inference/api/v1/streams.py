"""The engine's output to the client: as it comes, as it is."""

from collections.abc import AsyncGenerator
from typing import Final

from inference import errors
from inference.api import sse
from inference.api.errors import event as error_event
from inference.api.errors import translate
from inference.api.v1.calls import Call, answer
from inference.broker.types import CHUNK, INTERRUPTED, Event
from inference.states import TERMINAL

DONE: Final = b"data: [DONE]"
"""The engine's last event. Many clients leave as soon as they have it, before the job's row says `succeeded`."""


async def relay(call: Call, heard: list[Event]) -> AsyncGenerator[bytes, None]:
    """Yield the output of the attempt that `heard` begins with a chunk of; last, how it ended if not well."""
    claim_id, tail = heard[0].claim_id, b""
    while True:
        ending = next((e for e in heard if not _is_output(e, claim_id)), None)
        output = b"".join(e.data for e in (heard if ending is None else heard[: heard.index(ending)]))
        tail = (tail + output)[-2 * len(DONE) :]
        is_whole = tail.rstrip().endswith(DONE)
        # Before the client can see it: leaving now must not cancel what was delivered in full.
        call.is_settled = call.is_settled or is_whole
        if output:
            yield output
        if ending is not None:
            yield b"" if is_whole else await _closing(call, ending)
            return
        while (more := await sse.within_keep_alive(call.hear())) is None:
            yield sse.KEEP_ALIVE
        heard = more


def _is_output(event: Event, claim_id: object) -> bool:
    return event.kind == CHUNK and event.claim_id == claim_id


async def _closing(call: Call, ending: Event) -> bytes:
    """Return the last bytes of a stream that broke off: an error event, whatever became of its job."""
    call.is_settled = True
    if ending.kind in {INTERRUPTED, CHUNK}:
        # The job runs again for its record, but two attempts never mix in one stream.
        message = "The engine stopped in mid-stream. The job runs again: ask for it by its id."
        return error_event(errors.SluiceError(message, code="interrupted"))
    try:
        if ending.kind in TERMINAL:
            answer(await call.row())
    except Exception as error:  # headers are sent: whatever it is, the client reads it here
        return error_event(translate(error))
    # Redis was away, or forgot, between worker and client, or the client was too slow: what is missing must not
    # pass for the end.
    message = "Part of the output is lost; ask for the job by its id."
    return error_event(errors.SluiceError(message, code="output_lost"))
