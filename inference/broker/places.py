"""Where jobs stand in their queues: a read-only look; the script is `lua/explain.lua`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from inference.broker import base


@dataclass(frozen=True, slots=True)
class JobPlace:
    """One waiting job's place, as of one moment."""

    job_id: UUID
    queue: str
    tokens: int
    """Prompt and expected output."""
    estimate: float
    """Service seconds."""
    backing_off_seconds: float | None
    """Until it may be claimed; None if it may."""
    own_ahead: int
    """Jobs of its tenant, of its tier and of the lengths served with its own, that go first: exact."""
    tenants_ahead: int
    """Jobs of other tenants, of its tier, whose turn comes before its own: by passes, weights and what their next
    jobs are estimated at."""
    own_jobs: int
    """Its tenant's jobs in the tier."""
    alone: bool
    """Must run alone: only such jobs of its queue, of any tenant, are ahead."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """What holds a queue's first job is what holds the queue."""

    backing_off: int
    """Waiting jobs that may not be claimed yet."""
    first: JobPlace | None
    """The oldest that may be claimed; None if none waits."""
    came_seconds_ago: float | None
    """Since the last publish in its tier; None: there was none."""
    leased_tokens: int
    """Prompt and expected output of its jobs in flight: exact for a few, else by as many of them."""


class Places(NamedTuple):
    """All that was asked about, as of one moment."""

    queues: dict[str, QueuePlace]
    jobs: dict[UUID, JobPlace]
    held: dict[UUID, str]
    """Of jobs that were claimed, the worker that holds them."""
    alone: frozenset[str]
    """Workers that hold a job which must run alone: they claim little or nothing."""


class PlaceVerbs(base.Verbs):
    """What pages ask about the order."""

    def places(self, queues: Sequence[str], job_ids: Sequence[UUID]) -> Places:
        """Return where the queues and the jobs stand; jobs that are nowhere are left out."""
        of_queues, of_jobs, alone = self._call("explain", len(queues), *queues, *base.raw(job_ids))
        places = {queue: _queue_place(*row) for queue, row in zip(queues, of_queues, strict=True)}
        held = {UUID(bytes=row[0]): row[1].decode() for row in of_jobs if _is_held(row)}
        jobs = [place for row in of_jobs if (place := _place(row))]
        runs_alone = frozenset(name.decode() for name in alone)
        return Places(places, {place.job_id: place for place in jobs}, held, runs_alone)


def _is_held(row: list[Any]) -> bool:
    return len(row) == 2


def _queue_place(backing_off: int, first: list[Any], came_ms_ago: bytes, leased_tokens: bytes) -> QueuePlace:
    came_seconds_ago = int(came_ms_ago) / 1000 if came_ms_ago else None
    return QueuePlace(backing_off, _place(first), came_seconds_ago, int(leased_tokens))


def _place(row: list[Any]) -> JobPlace | None:
    if not row or _is_held(row):
        return None
    job_id, queue, tokens, estimate, from_ms, own_ahead, tenants_ahead, own_jobs, alone = row
    return JobPlace(
        job_id=UUID(bytes=job_id),
        queue=queue.decode(),
        tokens=int(tokens),
        estimate=float(estimate),
        backing_off_seconds=int(from_ms) / 1000 if from_ms else None,
        own_ahead=own_ahead,
        tenants_ahead=int(tenants_ahead),
        own_jobs=int(own_jobs),
        alone=bool(alone),
    )
