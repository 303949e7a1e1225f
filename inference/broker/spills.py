"""Verbs on jobs that are kept out of their full queues, and on bringing them in."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from inference.broker import base, queues, scripts
from inference.broker.types import Entry

FEEDING_SECONDS: Final = 10
"""A job that has room and is not published by then is spilled again: who fed it died."""
_NONE: Final = -1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may wait in a queue while it is fed; None is unbounded."""

    jobs: int
    tokens: int | None = None
    bytes: int | None = None
    model_bytes: int | None = None
    """In all queues of its model."""


class SpillVerbs(base.Verbs):
    """What the feeder and the reconciler ask."""

    def feed(self, queue: str, bounds: Bounds, siblings: Sequence[str], job_ids: Sequence[UUID]) -> list[UUID]:
        """Reserve room for those of the spilled jobs that have it, in their order; says for which.

        `siblings` are all queues of the model. At most queues.JOBS_PER_SCRIPT jobs. Those not published within
        FEEDING_SECONDS are spilled again.
        """
        limits = (bounds.tokens, bounds.bytes, bounds.model_bytes)
        numbers = (FEEDING_SECONDS * 1000, bounds.jobs, *(_NONE if n is None else n for n in limits))
        asked: tuple[scripts.Argument, ...] = (len(siblings), *siblings, *base.raw(job_ids))
        return [UUID(bytes=i) for i in self._call("feed", queue, struct.pack("<5d", *numbers), *asked)]

    def spill(self, entries: Sequence[Entry]) -> list[bool]:
        """Know jobs as spilled again. False: it was known. One script per JOBS_PER_SCRIPT."""
        chunks = (entries[i : i + queues.JOBS_PER_SCRIPT] for i in range(0, len(entries), queues.JOBS_PER_SCRIPT))
        return [bool(new) for chunk in chunks for new in self._call("spill", *_arguments(chunk))]

    def unspill(self, job_ids: Iterable[UUID]) -> None:
        """Count jobs as spilled no more whose rows are not. What is queued or leased stays so."""
        if ids := list(job_ids):
            self._call("unspill", *base.raw(ids))

    def known(self, job_ids: Iterable[UUID]) -> set[UUID]:
        """Those of `job_ids` that are queued, leased, or admitted and not published."""
        ids = list(job_ids)
        found = self._call("known", *base.raw(ids)) if ids else []
        return {job_id for job_id, is_known in zip(ids, found, strict=True) if is_known}

    def spilled(self, queue: str, cursor: str = "0", count: int = 500) -> tuple[str, list[UUID]]:
        """About `count` of the queue's spilled jobs, those left out that came within a reservation's time.

        Go on with the cursor returned until it is "0".
        """
        after, ids = self._call("spilled", queue, cursor, count, queues.RESERVATION_SECONDS * 1000)
        return after.decode(), [UUID(bytes=job_id) for job_id in ids]


def _arguments(entries: Sequence[Entry]) -> list[scripts.Argument]:
    arguments: list[scripts.Argument] = []
    for entry in entries:
        tokens, work = entry.prompt_tokens + entry.expected_tokens, round(entry.estimate * 1000)
        numbers = struct.pack("<4d", tokens, entry.request_bytes, work, entry.arrival_ms or 0)
        arguments += (entry.job_id.bytes, entry.queue, entry.tenant, numbers)
    return arguments
