"""Writes decided changes: one transaction, few statements, on SQLite and PostgreSQL alike."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import transaction
from django.utils import timezone

from inference import deadlines, snapshot
from inference.charges import NO_PRICES, PriceList
from inference.lifecycle import bookings, statements, transitions
from inference.lifecycle.changes import Account, Applied, Change, Fail, NewJob, Release, Start, Succeed, Work
from inference.lifecycle.statements import Event, Found
from inference.models import Job, JobEvent
from inference.states import TERMINAL, WAITING, Endpoint, JobEventKind, JobStatus

_DEFAULTS: Final = {
    field.attname: None if field.has_default() and callable(field.default) else field.get_default()
    for field in Job._meta.concrete_fields
}
"""Of a row's columns, in their order; None where each row has to be given one of its own."""

DEFAULT_MAX_ATTEMPTS: Final = 3
"""Of a job whose tier is newer than the limits that this process has read."""


@dataclass(frozen=True, slots=True)
class _Now:
    """What holds for all changes of one commit."""

    now: datetime
    ready: Mapping[str, datetime | None]
    """By queue, of late jobs: since when its deadlines' clock runs."""
    allowed: Mapping[str, int]
    """Attempts by tier."""
    prices: PriceList = NO_PRICES


def create(jobs: Sequence[NewJob]) -> list[Job]:
    """Insert the rows, `queued` or `spilled`, with their first events, in one transaction. Publishes nothing."""
    rows = [_new_row(job) for job in jobs]
    events = [_first_event(job) for job in jobs]
    with transaction.atomic(savepoint=False):  # two statements less in a caller's own transaction
        statements.insert_jobs(rows)
        statements.insert_events(events)
    for row, event in zip(rows, events, strict=True):
        row.history = [JobEvent(**event._asdict())]  # who shows the new job need not read it
    return rows


def apply(changes: Sequence[Change], *, now: datetime | None = None) -> list[Applied]:
    """Apply the changes in order, in one transaction; two of the same job act one after the other.

    The answers are in the order of the changes. Raises django.db.Error, with nothing applied.
    """
    if not changes:
        return []
    now = now or timezone.now()
    allowed, prices = _allowed_attempts(changes), _prices(changes)
    with transaction.atomic():
        known = statements.lock({change.job_id for change in changes})
        ready = _ready_since(known.values(), now)
        answers, events = [], []
        for change in changes:
            answer, event = _apply_one(known, change, _Now(now, ready, allowed, prices))
            answers.append(answer)
            events += [event] if event else []
        statements.update((job_id, job) for job_id, job in known.items() if job.row != job.read)
        statements.insert_events(events)
        # Last: of all that is written, only these rows are other commits' too, which wait for them.
        statements.add_usage(bookings.of(known.values(), now))
        return [_with_work(a, c, known) for a, c in zip(answers, changes, strict=True)]


def _first_event(job: NewJob) -> Event:
    detail = "" if job.hold_ends_at is None else transitions.ON_HOLD
    kind = JobEventKind.SPILLED if job.is_spilled else JobEventKind.QUEUED
    return Event(job.id, job.created_at, kind, None, "", 0, detail)


def _new_row(job: NewJob) -> Job:
    """Return the row, its values put in by place as from the database: by name, Django takes thrice as long."""
    values = _DEFAULTS | {
        "id": job.id,
        "tenant_id": job.tenant,
        "api_key_id": job.api_key_id,
        "model_id": job.model,
        "tier_id": job.tier,
        "length_id": job.length,
        "endpoint": job.endpoint,
        "request": job.request,
        "request_bytes": job.request_bytes,
        "streamed": job.streamed,
        "prompt_tokens": job.prompt_tokens,
        "expected_tokens": job.expected_tokens,
        "estimate_seconds": job.estimate_seconds,
        "status": JobStatus.SPILLED if job.is_spilled else JobStatus.QUEUED,
        "created_at": job.created_at,
        "queued_at": job.created_at,
        "start_deadline_at": job.start_deadline_at,
        "hold_ends_at": job.hold_ends_at,
    }
    return Job.from_db(None, list(values), list(values.values()))


def _ready_since(known: Iterable[Found], now: datetime) -> dict[str, datetime | None]:
    """Look the clocks up of the queues of late jobs only: almost never."""
    late = [job for job in known if job.row.status in WAITING and job.row.start_deadline_at <= now]
    clocks = {model: deadlines.clocks(model, now=now) for model in {job.model for job in late}}
    return {job.queue: clocks[job.model].of(job.queue) for job in late}


def _allowed_attempts(changes: Iterable[Change]) -> dict[str, int]:
    """Look `max_attempts` up by tier, if a change may ask for it; outside the transaction, which holds locks."""
    if not any(isinstance(change, Release) for change in changes):
        return {}
    return {name: tier.max_attempts for name, tier in snapshot.limits().tiers.items()}


def _prices(changes: Iterable[Change]) -> PriceList:
    """Look the prices up, if a change may ask for them; likewise."""
    is_asked = any(isinstance(change, Succeed | Fail | Account) for change in changes)
    return snapshot.limits().prices if is_asked else NO_PRICES


def _apply_one(known: dict[uuid.UUID, Found], change: Change, at: _Now) -> tuple[Applied, Event | None]:
    job = known.get(change.job_id)
    if job is None:
        return Applied(job_id=change.job_id, moved=False, status=None), None
    terms = transitions.Terms(at.now, at.allowed.get(job.tier, DEFAULT_MAX_ATTEMPTS), at.ready.get(job.queue))
    before, step = job.row, transitions.decide(job.row, change, terms)
    job.row = after = bookings.priced(job, step.row, at.prices, at.now) if step else before
    job.ended += before.status is JobStatus.RUNNING and after.status in TERMINAL
    answer = Applied(
        job_id=change.job_id,
        moved=_is_moved(change, step, after),
        status=after.status,
        claim_id=before.claim_id,
        cost_nano=after.cost_nano - before.cost_nano,
        engine_crashes=after.engine_crashes,
    )
    return answer, _event(change.job_id, before, step, at.now) if step else None


def _is_moved(change: Change, step: transitions.Step | None, after: transitions.Row) -> bool:
    if isinstance(change, Start):  # asked again after a commit whose answer was lost, it is under way all the same
        return after.status is JobStatus.RUNNING and after.claim_id == change.token.claim_id
    return step is not None


def _event(job_id: uuid.UUID, before: transitions.Row, step: transitions.Step, now: datetime) -> Event | None:
    if step.kind is None:
        return None
    anew = step.kind is JobEventKind.QUEUED
    return Event(
        job_id=job_id,
        at=now,
        kind=step.kind,
        claim_id=None if anew else step.row.claim_id or before.claim_id,
        worker="" if anew else step.row.worker or before.worker,
        attempt=0 if anew else max(before.attempts, step.row.attempts),
        detail=step.detail[:255],
    )


def _with_work(answer: Applied, change: Change, known: dict[uuid.UUID, Found]) -> Applied:
    if not (answer.moved and isinstance(change, Start)):
        return answer
    job = known[change.job_id]
    return replace(
        answer,
        work=Work(
            endpoint=Endpoint(job.endpoint),
            request=statements.request_of(change.job_id) if job.request is None else job.request,
            api_key_id=job.api_key_id,
            model=job.model,
            tier=job.tier,
            streamed=job.streamed,
            attempt=job.row.attempts,
            engine_crashes=job.row.engine_crashes,
            created_at=job.created_at,
            started_at=job.row.started_at or job.created_at,
        ),
    )
