"""Verbs on waiting jobs: reserve, publish, look, cancel."""

import itertools
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, Literal
from uuid import UUID

from inference import routing
from inference.admission.terms import Answer, Asked
from inference.broker import admissions, base, scripts
from inference.broker.types import Entry, QueueStats

RESERVATION_SECONDS: Final = 60
"""A reservation that is not published by then is dropped."""

JOBS_PER_SCRIPT: Final = 100
"""A long script holds everyone up."""


class QueueVerbs(base.Verbs):
    """What submission, the reconciler and pages ask of the queues."""

    def admit(self, asked: Asked) -> Answer:
        """Check all limits and reserve room for all jobs, or none: no limit is passed by one, however many call.

        At most JOBS_PER_SCRIPT jobs. In the same round trip comes what is known to estimate them by.
        """
        reply = self._call("admit", *admissions.arguments(asked, RESERVATION_SECONDS * 1000))
        return admissions.parse(asked, reply)

    def withdraw(self, owner: str, job_ids: Sequence[UUID]) -> None:
        """Give back what `owner` was admitted with, its rates too: the rows were not written."""
        if job_ids:
            self._call("withdraw", owner, *base.raw(job_ids))

    def turn(self, queue: str, ticket: str, tenant: str, *, jobs: int, drain_per_ms: float) -> int:
        """Return in how many ms those with the ticket may come back, and keep room for them then.

        `drain_per_ms` is what should leave the queue, where that is not measured.
        """
        return int(self._call("turn", queue, ticket, tenant, jobs, repr(drain_per_ms)))

    def publish(self, entries: Sequence[Entry]) -> list[bool]:
        """Queue the jobs that are neither queued nor leased, and ring. One script per 100; False: was held."""
        chunks = (entries[i : i + JOBS_PER_SCRIPT] for i in range(0, len(entries), JOBS_PER_SCRIPT))
        return [bool(new) for chunk in chunks for new in self._call("publish", *_publish_arguments(chunk))]

    def publish_task(self, queue: str, tag: UUID, body: bytes) -> None:
        """Queue a Celery task that is not a job: `body` is its whole message. First in, first out."""
        self._call("publish_task", queue, tag.bytes, body)

    def cancel(
        self, job_id: UUID, *, status: str = "cancelled", target_seconds: float | None = None
    ) -> Literal["queued", "leased", "spilled", "absent"]:
        """Take a job out whose row is already `status`. Says where it was.

        One that never started, and waited for longer than `target_seconds` (None: any time), missed its objective.

        A queued or spilled one is gone at once. A leased one is marked: renewals report it, nothing is appended
        any more, and its worker's ack only drops the lease. Those who watch it see `status` in either case, once.
        """
        where: bytes = self._call("cancel", job_id.bytes, status, base.target_ms(target_seconds))
        return where.decode()  # type: ignore[return-value]

    def move(self, job_id: UUID, queue: str, *, cap: int) -> Literal["moved", "leased", "absent", "full"]:
        """Move a waiting job to another queue of its model; not beyond `cap` waiting there. Says what came."""
        done: bytes = self._call("move", job_id.bytes, *queue_arguments(queue), cap)
        return done.decode()  # type: ignore[return-value]

    def discard(self, job_ids: Iterable[UUID]) -> set[UUID]:
        """Drop entries, leases and reservations of jobs whose rows are finished; says which there were.

        Tells nobody: `notify` those returned, so that whoever still watches them learns the end.
        """
        ids = list(job_ids)
        dropped = self._call("discard", *base.raw(ids)) if ids else []
        return {job_id for job_id, was in zip(ids, dropped, strict=True) if was}

    def held(self, job_ids: Iterable[UUID]) -> set[UUID]:
        """Those of `job_ids` that are queued or leased."""
        ids = list(job_ids)
        found = self._call("held", *base.raw(ids)) if ids else []
        return {job_id for job_id, is_held in zip(ids, found, strict=True) if is_held}

    def waits(self, job_ids: Iterable[UUID]) -> dict[UUID, timedelta]:
        """How long ago those of `job_ids` arrived that are queued, leased or reserved, by the server's clock."""
        ids = list(job_ids)
        found = self._call("waits", *base.raw(ids)) if ids else []
        return {i: timedelta(milliseconds=int(ms)) for i, ms in zip(ids, found, strict=True) if ms is not None}

    def entries(self, cursor: str = "0", count: int = 500) -> tuple[str, list[UUID]]:
        """About `count` of the jobs held; go on with the cursor returned until it is "0".

        A job that is held from start to end of the walk is seen at least once, others perhaps.
        """
        after, ids = self._call("entries", cursor, count)
        return after.decode(), [UUID(bytes=job_id) for job_id in ids]

    def sweep(self, tenant: str, cursor: str = "0", count: int = 500) -> tuple[str, int]:
        """Take off a tenant's count what is nowhere, and say how much; go on with the cursor until it is "0"."""
        after, gone = self._call("sweep", tenant, cursor, count)
        return after.decode(), gone

    def stats(self, queues: Sequence[str]) -> list[QueueStats]:
        """Numbers of each of `queues`, in that order, all of one moment."""
        rows = self._call("stats", *queues) if queues else []
        return [_stats(queue, row) for queue, row in zip(queues, rows, strict=True)]

    def set_tenant_weight(self, tenant: str, weight: float) -> None:
        """Set a tenant's share against other tenants, from the next claim on."""
        self._call("set_weight", tenant, repr(float(weight)))


def queue_arguments(queue: str) -> list[str]:
    """Return a queue's name and its model, tier and length, as the scripts take them; a plain queue has none."""
    if routing.is_plain(queue):
        return [queue, "", "", ""]
    name = routing.parse(queue)
    return [queue, name.model, name.tier, name.length]


def _publish_arguments(entries: Sequence[Entry]) -> list[scripts.Argument]:
    queues = {queue: i for i, queue in enumerate(dict.fromkeys(e.queue for e in entries), start=1)}
    names = itertools.chain.from_iterable(queue_arguments(queue) for queue in queues)
    jobs = itertools.chain.from_iterable(_entry_arguments(e, queues[e.queue]) for e in entries)
    return [len(queues), *names, *jobs]


def _entry_arguments(entry: Entry, queue: int) -> list[scripts.Argument]:
    return [
        queue,
        entry.job_id.bytes,
        entry.tenant,
        entry.prompt_tokens,
        entry.expected_tokens,
        repr(float(entry.estimate)),
        "" if entry.arrival_ms is None else entry.arrival_ms,
        entry.mailbox,
        int(entry.streamed),
        repr(float(entry.tenant_weight)),
        entry.request_bytes,
        int(entry.alone),
        int(entry.counts),
    ]


def _stats(queue: str, row: Sequence[Any]) -> QueueStats:
    jobs, tokens, oldest, leases, size, work, on_hold, spilled, rate = row
    arrived = int(oldest) if oldest else None
    return QueueStats(
        queue, jobs, tokens, arrived, leases, size, work / 1000, on_hold, spilled, claims_per_second=float(rate)
    )
