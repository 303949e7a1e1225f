"""A job's events as server-sent events: states and output in one order, resumable by `Last-Event-ID`."""

import re
import uuid
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from django.http.response import HttpResponseBase

from inference import errors, executor, fields, results, selectors
from inference.api import authentication, sse
from inference.api.handler import ApiRequest
from inference.broker import order
from inference.broker.types import CHUNK, END, GAP, INTERRUPTED, Event
from inference.models import JobEvent
from inference.states import TERMINAL

EVENT_ID: Final = re.compile(r"\d{1,14}(-\d{1,18})?")
"""Milliseconds that are still a date, and a number that Redis still takes."""
LOST: Final[dict[str, Any]] = {
    "code": "output_lost",
    "message": "You were too far behind: events before the next one are lost. The job has its whole result.",
}


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event."""

    id: str
    event: str
    """`state`, `chunk`, `end`, `interrupted` or `gap`."""
    data: dict[str, Any]

    def __bytes__(self) -> bytes:
        head = f"id: {self.id}\nevent: {self.event}\ndata: "
        return head.encode() + orjson.dumps(self.data) + b"\n\n"


async def job_events(request: ApiRequest, job_id: uuid.UUID) -> HttpResponseBase:
    """GET /api/v1/jobs/{id}/events/: ends after the job's terminal state."""
    caller = await authentication.caller(request)
    return await stream(request, caller.tenant, job_id)


async def stream(request: ApiRequest, tenant: str, job_id: uuid.UUID) -> HttpResponseBase:
    """Return the tenant's job's events from where the client left off. Raises errors.NotFound."""
    after = _after(request)
    await executor.run(selectors.check_exists, tenant, job_id)
    inbox = await request.closing.enter_async_context(results.follow(job_id, after=after))
    # Read after the inbox: what happens between the two is seen twice, never missed.
    history = await executor.run(_history, job_id, after)
    return sse.EventStream(_messages(inbox, history))


async def _messages(inbox: results.Inbox, history: Mapping[int, JobEvent]) -> AsyncGenerator[bytes, None]:
    heard = inbox.get_nowait()
    told = {(event.kind, event.claim_id) for event in heard}
    past = {number: step for number, step in history.items() if (step.kind, step.claim_id) not in told}
    # Begins with a comment: the client learns at once that it is connected, whatever there is to say.
    yield b"".join([sse.KEEP_ALIVE, *(bytes(_past(number, step)) for number, step in past.items())])
    known = {(step.kind, step.claim_id) for step in past.values() if step.claim_id}
    while True:
        fresh = [event for event in heard if (event.kind, event.claim_id) not in known]
        yield b"".join(bytes(message) for message in map(_message, fresh) if message.data)
        if any(event.kind in TERMINAL for event in heard):
            return
        while (more := await sse.within_keep_alive(inbox.get())) is None:
            yield sse.KEEP_ALIVE
        heard = more


def _message(event: Event) -> Message:
    claim = str(event.claim_id) if event.claim_id else None
    if event.kind == CHUNK:
        chunks = list(_chunks(event.data))
        return Message(event.id, "chunk", {"claim_id": claim, "chunks": chunks} if chunks else {})
    if event.kind == GAP:
        return Message(event.id, "gap", LOST)
    if event.kind in {END, INTERRUPTED}:
        return Message(event.id, event.kind, {"claim_id": claim})
    return Message(event.id, "state", {"state": event.kind, "claim_id": claim, "at": _time(event.id)})


def _past(number: int, event: JobEvent) -> Message:
    """Tell a step from before the job had a stream, under an id that sorts before every id of a stream."""
    claim = str(event.claim_id) if event.claim_id else None
    return Message(f"0-{number}", "state", {"state": event.kind, "claim_id": claim, "at": event.at})


def _chunks(data: bytes) -> Iterable[Any]:
    """Unwrap the engine's own server-sent events; its `[DONE]` says nothing that `end` does not."""
    lines = (line.removeprefix(b"data:").strip() for line in data.splitlines() if line.startswith(b"data:"))
    return (orjson.loads(line) for line in lines if line != b"[DONE]")


def _time(event_id: str) -> datetime:
    return datetime.fromtimestamp(order(event_id)[0] / 1000, tz=UTC)


def _after(request: ApiRequest) -> str:
    last_seen = request.headers.get("Last-Event-ID")
    name, after = (
        ("Last-Event-ID", last_seen) if last_seen else ("after", request.GET.get("after") or results.START)
    )
    if not EVENT_ID.fullmatch(after):
        message = f"{name} must be the id of an event, as 1700000000000-0, not {fields.show(after)}"
        raise errors.InvalidRequest(message, param=name)
    return after


def _history(job_id: uuid.UUID, after: str) -> dict[int, JobEvent]:
    """Return the job's steps by number; without its end, which comes as an event.

    None for a client that has seen the stream: all of them are older.
    """
    milliseconds, seen = order(after)
    if milliseconds:
        return {}
    steps = JobEvent.objects.filter(job_id=job_id).exclude(kind__in=[s.value for s in TERMINAL])
    return {n: step for n, step in enumerate(steps.order_by("id"), start=1) if n > seen}
