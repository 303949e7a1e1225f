"""Verbs on what a job says: streams, mailboxes, watchers."""

from typing import Any
from uuid import UUID

from inference.broker import base, keys
from inference.broker.types import Event
from inference.states import TERMINAL


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
        """Return the job's own events after id `after`, oldest first, `count` at most; none without a stream."""
        key = keys.stream(self.prefix, job_id)
        return read_stream(job_id, self.client.xrange(key, min=f"({after}", count=count))


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
