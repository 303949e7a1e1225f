"""The SQL of the life cycle, on SQLite and PostgreSQL. What is written was decided under the lock of `lock`.

Statements of our own, since every job passes here twice: the ORM spends most of a commit on building the same few
texts anew. One text for any number of rows, so that drivers and servers keep them prepared.
"""

import functools
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from django.db import connection

from inference.lifecycle import transitions
from inference.models import Job, JobEvent
from inference.routing import QueueName
from inference.states import JobEventKind, JobStatus

COLUMNS: Final = tuple(field.name for field in fields(transitions.Row))
NO_CLAIM: Final = uuid.UUID(int=0)
_FIXED: Final = ("id", "api_key_id", "model_id", "tier_id", "length_id", "endpoint", "streamed", "created_at")
_VALUES: Final = attrgetter(*COLUMNS)
_JOBS: Final = Job._meta.db_table
_EVENTS: Final = JobEvent._meta.db_table

Values = list[Any]


@dataclass(slots=True)
class Found:
    """A job as read under its lock."""

    api_key_id: str | None
    model: str
    tier: str
    length: str
    endpoint: str
    streamed: bool
    created_at: datetime
    request: str | None
    """None unless the job was queued: a long text that only a start needs."""
    read: transitions.Row
    row: transitions.Row
    """As the changes so far made it."""

    @property
    def queue(self) -> str:
        """Name of the job's queue."""
        return str(QueueName(self.model, self.tier, self.length))


@dataclass(frozen=True, slots=True)
class Event:
    """One step of a job's history."""

    job_id: uuid.UUID
    at: datetime
    kind: JobEventKind
    claim_id: uuid.UUID | None
    worker: str
    attempt: int
    detail: str


def insert_jobs(rows: Iterable[Job]) -> None:
    """Write new rows, with every column as the model has it."""
    adapted = _adapter()
    rows = list(rows)
    with connection.cursor() as cursor:
        cursor.executemany(_INSERT_JOB, [[adapted(value) for value in _JOB_VALUES(row)] for row in rows])
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def lock(job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Found]:
    """Read the rows under a lock. SQLite's transaction is IMMEDIATE; PostgreSQL locks by id, lest two deadlock."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute(_LOCK_SQLITE, [json.dumps([job_id.hex for job_id in job_ids])])
        else:
            cursor.execute(_LOCK, [list(job_ids)])
        return dict(map(_found, cursor.fetchall()))


def update(changed: Iterable[tuple[uuid.UUID, Found]]) -> None:
    """Write what differs from what was read. Raises RuntimeError if a row is not as it was read."""
    batches: dict[tuple[str, ...], list[Values]] = {}
    adapted = _adapter()
    for job_id, job in changed:
        names, values = _difference(job.read, job.row)
        found = (job_id, job.read.status, NO_CLAIM, job.read.claim_id or NO_CLAIM)
        batches.setdefault(names, []).append([adapted(value) for value in (*values, *found)])
    with connection.cursor() as cursor:
        for names, rows in batches.items():
            cursor.executemany(_update(names), rows)
            if cursor.rowcount != len(rows):
                raise RuntimeError(f"{len(rows)} locked jobs to write, {cursor.rowcount} written")


def insert_events(events: Iterable[Event]) -> None:
    """Write history."""
    adapted = _adapter()
    rows = [[adapted(value) for value in _EVENT_VALUES(event)] for event in events]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_INSERT_EVENT, rows)


def request_of(job_id: uuid.UUID) -> str:
    """Read the request of a job that `lock` found in another status than queued."""
    return Job.objects.values_list("request", flat=True).get(id=job_id)


def _found(values: tuple[Any, ...]) -> tuple[uuid.UUID, Found]:
    job_id, api_key_id, model, tier, length, endpoint, streamed, created_at, request, *rest = values
    columns = zip(COLUMNS, rest, strict=True)
    row = transitions.Row(**{name: _READ[name](value) if name in _READ else value for name, value in columns})
    fixed = (api_key_id, model, tier, length, endpoint, bool(streamed), _moment(created_at))
    found = Found(*fixed, request, row, row)
    return _uuid(job_id), found


def _difference(read: transitions.Row, row: transitions.Row) -> tuple[tuple[str, ...], Values]:
    names, values = [], []
    for name, before, after in zip(COLUMNS, _VALUES(read), _VALUES(row), strict=True):
        if before is not after and before != after:
            names.append(name)
            values.append(after)
    return tuple(names), values


# Values as the database's driver gives and takes them: what the ORM does, at a tenth of its price.


def _adapter() -> Callable[[Any], Any]:
    return _for_sqlite if connection.vendor == "sqlite" else _for_postgresql


def _for_sqlite(value: Any) -> Any:
    if isinstance(value, uuid.UUID):
        return value.hex
    if isinstance(value, datetime):
        return str(value.astimezone(UTC).replace(tzinfo=None))
    return value


def _for_postgresql(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value


def _uuid(value: Any) -> Any:
    return uuid.UUID(value) if isinstance(value, str) else value


def _moment(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "status": JobStatus,
    "claim_id": _uuid,
    **dict.fromkeys([name for name in COLUMNS if name.endswith("_at")], _moment),
}

_READ_JOBS: Final = (
    f"SELECT {', '.join(_FIXED)}, CASE WHEN status = '{JobStatus.QUEUED}' THEN request END, "  # noqa: S608 - our names
    f"{', '.join(COLUMNS)} FROM {_JOBS} WHERE id"
)
_LOCK: Final = f"{_READ_JOBS} = ANY(%s) ORDER BY id FOR UPDATE"
_LOCK_SQLITE: Final = f"{_READ_JOBS} IN (SELECT value FROM json_each(%s))"  # noqa: S608 - our own names
_JOB_FIELDS: Final = Job._meta.concrete_fields
_JOB_VALUES: Final = attrgetter(*[field.attname for field in _JOB_FIELDS])
_INSERT_JOB: Final = (
    f"INSERT INTO {_JOBS} ({', '.join(str(field.column) for field in _JOB_FIELDS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(['%s'] * len(_JOB_FIELDS))})"
)
_EVENT_COLUMNS: Final = tuple(field.name for field in fields(Event))
_EVENT_VALUES: Final = attrgetter(*_EVENT_COLUMNS)
_INSERT_EVENT: Final = (
    f"INSERT INTO {_EVENTS} ({', '.join(_EVENT_COLUMNS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(['%s'] * len(_EVENT_COLUMNS))})"
)


@functools.cache
def _update(names: tuple[str, ...]) -> str:
    """Return the statement; the rows are locked, and its condition is the second lock, should that not hold."""
    sets = ", ".join(f"{name} = %s" for name in names)
    return f"UPDATE {_JOBS} SET {sets} WHERE id = %s AND status = %s AND COALESCE(claim_id, %s) = %s"  # noqa: S608
