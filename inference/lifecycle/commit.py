"""Writes decided changes: one transaction, few statements, on SQLite and PostgreSQL alike."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from inference import fleet
from inference.lifecycle import transitions
from inference.lifecycle.changes import Applied, Change, NewJob, Start, Work
from inference.models import Job, JobEvent
from inference.states import Endpoint, JobEventKind, JobStatus

COLUMNS: Final = tuple(f.name for f in fields(transitions.Row))
NO_CLAIM: Final = uuid.UUID(int=0)
_VALUES: Final = attrgetter(*COLUMNS)

# The rows are locked when this runs; its condition is the second lock, should that ever not hold.
_UPDATE: Final = (
    f"UPDATE {Job._meta.db_table} SET {', '.join(f'{name} = %s' for name in COLUMNS)}"  # noqa: S608 - our own names
    " WHERE id = %s AND status = %s AND COALESCE(claim_id, %s) = %s"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """A job's row as read in this transaction, and as the changes so far made it."""

    model: str
    read: transitions.Row
    row: transitions.Row


def create(jobs: Sequence[NewJob]) -> list[Job]:
    """Insert the rows, `queued`, with their first events, in one transaction. Publishes nothing."""
    with transaction.atomic():
        rows = Job.objects.bulk_create([_new_row(job) for job in jobs])
        JobEvent.objects.bulk_create(
            [JobEvent(job_id=job.id, at=job.created_at, kind=JobEventKind.QUEUED) for job in jobs]
        )
    return rows


def apply(changes: Sequence[Change], *, now: datetime | None = None) -> list[Applied]:
    """Apply the changes in order, in one transaction; two of the same job act one after the other.

    The answers are in the order of the changes. Raises django.db.Error, with nothing applied.
    """
    if not changes:
        return []
    now = now or timezone.now()
    with transaction.atomic():
        known = _lock({change.job_id for change in changes})
        ready = _ready_since(known.values(), now)
        answers, events = [], []
        for change in changes:
            answer, event = _apply_one(known, change, now, ready)
            answers.append(answer)
            events += [event] if event else []
        _write(known)
        JobEvent.objects.bulk_create(events)
        return _with_work(answers, changes, known)


def _new_row(job: NewJob) -> Job:
    return Job(
        id=job.id,
        tenant_id=job.tenant,
        api_key_id=job.api_key_id,
        model_id=job.model,
        tier_id=job.tier,
        length_id=job.length,
        endpoint=job.endpoint,
        request=job.request,
        streamed=job.streamed,
        prompt_tokens=job.prompt_tokens,
        expected_tokens=job.expected_tokens,
        estimate_seconds=job.estimate_seconds,
        created_at=job.created_at,
        queued_at=job.created_at,
        start_deadline_at=job.start_deadline_at,
    )


def _lock(job_ids: set[uuid.UUID]) -> dict[uuid.UUID, _Known]:
    """Read the rows under a lock. SQLite's transaction is IMMEDIATE; PostgreSQL locks by id, lest two deadlock."""
    query = Job.objects.select_for_update().filter(id__in=job_ids).order_by("id")
    known = {}
    for job_id, model, status, *rest in query.values_list("id", "model_id", *COLUMNS):
        row = transitions.Row(**dict(zip(COLUMNS, (JobStatus(status), *rest), strict=True)))
        known[job_id] = _Known(model, row, row)
    return known


def _ready_since(known: Iterable[_Known], now: datetime) -> dict[str, datetime | None]:
    """Look the registry up for the models of late jobs only: almost never."""
    late = {k.model for k in known if k.row.status is JobStatus.QUEUED and k.row.start_deadline_at <= now}
    return {model: fleet.ready_since(model, now=now) for model in late}


def _apply_one(
    known: dict[uuid.UUID, _Known], change: Change, now: datetime, ready: dict[str, datetime | None]
) -> tuple[Applied, JobEvent | None]:
    job = known.get(change.job_id)
    if job is None:
        return Applied(job_id=change.job_id, moved=False, status=None), None
    terms = transitions.Terms(now, settings.MAX_ATTEMPTS, ready.get(job.model))
    before, step = job.row, transitions.decide(job.row, change, terms)
    after = step.row if step else before
    known[change.job_id] = replace(job, row=after)
    answer = Applied(
        job_id=change.job_id, moved=_is_moved(change, step, after), status=after.status, claim_id=before.claim_id
    )
    return answer, _event(change.job_id, before, step, now) if step else None


def _is_moved(change: Change, step: transitions.Step | None, after: transitions.Row) -> bool:
    if isinstance(change, Start):  # asked again after a commit whose answer was lost, it is under way all the same
        return after.status is JobStatus.RUNNING and after.claim_id == change.token.claim_id
    return step is not None


def _event(job_id: uuid.UUID, before: transitions.Row, step: transitions.Step, now: datetime) -> JobEvent:
    anew = step.kind is JobEventKind.QUEUED
    return JobEvent(
        job_id=job_id,
        at=now,
        kind=step.kind,
        claim_id=None if anew else step.row.claim_id or before.claim_id,
        worker="" if anew else step.row.worker or before.worker,
        attempt=0 if anew else max(before.attempts, step.row.attempts),
        detail=step.detail[:255],
    )


def _write(known: dict[uuid.UUID, _Known]) -> None:
    changed = [(job_id, job) for job_id, job in known.items() if job.row != job.read]
    if not changed:
        return
    with connection.cursor() as cursor:
        cursor.executemany(_UPDATE, [_parameters(job_id, job) for job_id, job in changed])
        if cursor.rowcount != len(changed):
            raise RuntimeError(f"{len(changed)} locked jobs to write, {cursor.rowcount} written")


def _parameters(job_id: uuid.UUID, job: _Known) -> list[Any]:
    held = job.read.claim_id or NO_CLAIM
    return [_adapt(v) for v in (*_VALUES(job.row), job_id, job.read.status, NO_CLAIM, held)]


def _adapt(value: object) -> Any:
    """Return the value as the database's driver takes it: what the ORM does, at a tenth of its price."""
    match value:
        case uuid.UUID():
            return value if connection.features.has_native_uuid_field else value.hex
        case datetime():
            return connection.ops.adapt_datetimefield_value(value)
        case StrEnum():
            return str(value)
    return value


def _with_work(answers: list[Applied], changes: Sequence[Change], known: dict[uuid.UUID, _Known]) -> list[Applied]:
    started = {a.job_id for a, c in zip(answers, changes, strict=True) if a.moved and isinstance(c, Start)}
    if not started:
        return answers
    work = _read_work(started, known)
    return [
        replace(a, work=work[a.job_id]) if a.moved and isinstance(c, Start) else a
        for a, c in zip(answers, changes, strict=True)
    ]


def _read_work(job_ids: set[uuid.UUID], known: dict[uuid.UUID, _Known]) -> dict[uuid.UUID, Work]:
    query = Job.objects.filter(id__in=job_ids).values_list(
        "id", "endpoint", "request", "model_id", "tier_id", "streamed", "created_at"
    )
    return {
        job_id: Work(
            endpoint=Endpoint(endpoint),
            request=request,
            model=model,
            tier=tier,
            streamed=streamed,
            attempt=known[job_id].row.attempts,
            engine_crashes=known[job_id].row.engine_crashes,
            created_at=created_at,
            started_at=known[job_id].row.started_at or created_at,
        )
        for job_id, endpoint, request, model, tier, streamed, created_at in query
    }
