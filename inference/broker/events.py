"""Verbs on what a job says: streams, mailboxes, watchers."""

from typing import Any, Final
from uuid import UUID

from inference.broker import base, keys
from inference.broker.types import GAP, Event
from inference.states import TERMINAL

LAST_SEQUENCE: Final = 999_999_999_999_999_999
"""As many digits as the API takes."""


class EventVerbs(base.Verbs):
    """Events for those who wait for a job. A job that nobody waits for never has a stream."""

    def watch(self, job_id: UUID, mailbox: str, *, seconds: float = 3600) -> None:
        """Send the job's events to `mailbox` too, for `seconds` or until its terminal event.

        Read the row after this, not before: then no end is missed.
        """
        self._call("watch", job_id.bytes, mailbox, max(1, round(seconds * 1000)))

    def unwatch(self, job_id: UUID, mailbox: str) -> None:
        """Stop what `watch` began."""
        self._call("unwatch", job_id.bytes, mailbox)

    def notify(self, job_id: UUID, *, kind: str, data: bytes = b"") -> None:
        """Tell those who wait for the job, whoever holds it. A terminal `kind` also ends its watches."""
        self._call("notify", job_id.bytes, kind, data, int(kind in TERMINAL))

    def stream(self, job_id: UUID, *, after: str = "0", count: int | None = None) -> list[Event]:
        """Return the job's own events after id `after`, oldest first, `count` at most; none without a stream.

        Before them comes a GAP, if events after `after` were dropped because the stream was full.
        """
        key = keys.stream(self.prefix, job_id)
        rows: Any = self.client.xrange(key, min=f"({after}", count=count)
        if len(rows) == count:  # else the reader is not so far behind
            return self._stream_with_gap(job_id, after, count)
        return read_stream(job_id, rows)

    def _stream_with_gap(self, job_id: UUID, after: str, count: int) -> list[Event]:
        key = keys.stream(self.prefix, job_id)
        with self.client.pipeline() as pipe:
            pipe.xrange(key, min=f"({after}", count=count)
            pipe.xrange(key, count=1)
            pipe.xinfo_stream(key)
            rows, oldest, info = pipe.execute()
        events = read_stream(job_id, rows)
        is_cut = rows and rows[0][0] == oldest[0][0] and info["entries-added"] > info["length"]
        if is_cut and order(place := _before(events[0].id)) > order(after):
            return [Event(place, job_id, GAP, None, b""), *events]
        return events


def order(event_id: str) -> tuple[int, int]:
    """Return what ids sort by. Raises ValueError if `event_id` is none."""
    milliseconds, _, sequence = event_id.partition("-")
    return int(milliseconds), int(sequence or 0)


def _before(event_id: str) -> str:
    """Return the id just before, under which nothing is kept: who comes back with it has been told of the gap."""
    milliseconds, sequence = order(event_id)
    return f"{milliseconds}-{sequence - 1}" if sequence else f"{milliseconds - 1}-{LAST_SEQUENCE}"


def read_stream(job_id: UUID, rows: Any) -> list[Event]:
    """Read the answer to an XRANGE of a job's stream."""
    return [_event(row_id.decode(), job_id, _named(fields)) for row_id, fields in rows]


def read_mail(rows: Any) -> list[Event]:
    """Read the messages of a mailbox; each carries the id it has in the job's stream."""
    mail = (_named(fields) for _, fields in rows)
    return [_event(fields[b"i"].decode(), UUID(bytes=fields[b"j"]), fields) for fields in mail]


def _named(fields: Any) -> dict[bytes, bytes]:
    """Return a row's fields by name: redis-py's client has made a mapping of them, the server sends a list."""
    return fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))


def _event(event_id: str, job_id: UUID, fields: dict[bytes, bytes]) -> Event:
    claim_id = fields.get(b"c")
    return Event(
        id=event_id,
        job_id=job_id,
        kind=fields[b"k"].decode(),
        claim_id=UUID(bytes=claim_id) if claim_id else None,
        data=fields.get(b"d", b""),
    )
