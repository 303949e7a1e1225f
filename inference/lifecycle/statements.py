"""The SQL of the life cycle, on SQLite and PostgreSQL. What is written was decided under the lock of `lock`.

Statements of our own, since every job passes here twice: the ORM spends most of a commit on building the same few
texts anew. One text for any number of rows, so that drivers and servers keep them prepared.
"""

import functools
import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple

from django.db import connection

from inference.lifecycle import transitions
from inference.models import Job, JobEvent, Usage
from inference.routing import QueueName
from inference.states import JobEventKind, JobStatus

COLUMNS: Final = transitions.Row._fields
NO_CLAIM: Final = uuid.UUID(int=0)
_FIXED: Final = (
    "tenant_id",
    "api_key_id",
    "model_id",
    "tier_id",
    "length_id",
    "endpoint",
    "streamed",
    "created_at",
)
_JOBS: Final = Job._meta.db_table
_EVENTS: Final = JobEvent._meta.db_table
_USAGE: Final = Usage._meta.db_table

Values = list[Any]


@dataclass(slots=True)
class Found:
    """A job as read under its lock."""

    read: transitions.Row
    row: transitions.Row
    """As the changes so far made it."""
    tenant: str
    api_key_id: str | None
    model: str
    tier: str
    length: str
    endpoint: str
    streamed: bool
    created_at: datetime
    request: str | None
    """None unless the job was queued: a long text that only a start needs."""
    ended: int = 0
    """Runs of it that the changes so far ended for good."""

    @property
    def queue(self) -> str:
        """Name of the job's queue."""
        return str(QueueName(self.model, self.tier, self.length))


class Booking(NamedTuple):
    """What is added to one row of usage."""

    tenant: str
    day: date
    api_key: str
    model: str
    tier: str
    jobs: int
    prompt_tokens: int
    output_tokens: int
    engine_ms: int
    cost_nano: int


class Event(NamedTuple):
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
        cursor.executemany(_INSERT_JOB, [list(map(adapted, _JOB_VALUES(row))) for row in rows])
    for row in rows:
        row._state.adding, row._state.db = False, connection.alias


def lock(job_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Found]:
    """Read the rows under a lock. SQLite's transaction is IMMEDIATE; PostgreSQL locks by id, lest two deadlock."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            ids = {job_id.hex: job_id for job_id in job_ids}
            cursor.execute(_LOCK_SQLITE, [json.dumps(list(ids))])
            return {ids[job_id]: _found(values, _READ_SQLITE) for job_id, *values in cursor.fetchall()}
        cursor.execute(_LOCK, [list(job_ids)])
        return {job_id: _found(values, _READ) for job_id, *values in cursor.fetchall()}


def update(changed: Iterable[tuple[uuid.UUID, Found]]) -> None:
    """Write what differs from what was read. Raises RuntimeError if a row is not as it was read."""
    batches: dict[tuple[str, ...], list[Values]] = {}
    adapted = _adapter()
    for job_id, job in changed:
        names, values = _difference(job.read, job.row)
        found = (job_id, job.read.status, NO_CLAIM, job.read.claim_id or NO_CLAIM)
        batches.setdefault(names, []).append(list(map(adapted, (*values, *found))))
    with connection.cursor() as cursor:
        for names, rows in batches.items():
            cursor.executemany(_update(names), rows)
            if cursor.rowcount != len(rows):
                raise RuntimeError(f"{len(rows)} locked jobs to write, {cursor.rowcount} written")


def insert_events(events: Iterable[Event]) -> None:
    """Write history."""
    adapted = _adapter()
    rows = [list(map(adapted, event)) for event in events]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_INSERT_EVENT, rows)


def add_usage(bookings: Iterable[Booking]) -> None:
    """Add to the sums. In one order everywhere, lest two commits wait for each other's rows."""
    adapted = _adapter()
    rows = [list(map(adapted, booking)) for booking in sorted(bookings)]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD_USAGE, rows)


def request_of(job_id: uuid.UUID) -> str:
    """Read the request of a job that `lock` found in another status than queued."""
    return Job.objects.values_list("request", flat=True).get(id=job_id)


def _found(values: Values, read: Sequence[tuple[int, "Reader"]]) -> Found:
    for at, reader in read:
        if values[at] is not None:
            values[at] = reader(values[at])
    row = transitions.Row._make(values[_FIRST:])
    return Found(row, row, *values[:_FIRST])


def _difference(read: transitions.Row, row: transitions.Row) -> tuple[tuple[str, ...], Values]:
    changed = [at for at, before in enumerate(read) if before is not row[at] and before != row[at]]
    return tuple([COLUMNS[at] for at in changed]), [row[at] for at in changed]


# Values as the database's driver gives and takes them: what the ORM does, at a tenth of its price.


def _adapter() -> Callable[[Any], Any]:
    return _for_sqlite if connection.vendor == "sqlite" else _for_postgresql


def _for_sqlite(value: Any) -> Any:
    adapt = _SQLITE.get(type(value))
    return adapt(value) if adapt else value


def _for_postgresql(value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value


@functools.lru_cache(maxsize=8)
def _sqlite_text(moment: datetime) -> str:
    """Return it as Django stores it. Cached, since all changes of one commit have one moment."""
    return str(moment.astimezone(UTC).replace(tzinfo=None))


_SQLITE: Final[Mapping[type, Callable[[Any], Any]]] = {
    uuid.UUID: lambda value: value.hex,
    datetime: _sqlite_text,
    date: date.isoformat,
    JobStatus: str,  # the driver takes subclasses of str too, after a search
    JobEventKind: str,
}

Reader = Callable[[Any], Any]

_LOCKED: Final = (*_FIXED, "request", *COLUMNS)
"""What `lock` reads beside the id."""
_FIRST: Final = len(_LOCKED) - len(COLUMNS)
_MOMENTS: Final = tuple(name for name in _LOCKED if name.endswith("_at"))
_READ: Final[Sequence[tuple[int, Reader]]] = ((_LOCKED.index("status"), JobStatus),)
"""Place of a column that the driver gives in another form, and what reads it unless it is NULL."""
_READ_SQLITE: Final[Sequence[tuple[int, Reader]]] = (
    *_READ,
    (_LOCKED.index("claim_id"), uuid.UUID),
    (_LOCKED.index("streamed"), bool),
    *((_LOCKED.index(name), datetime.fromisoformat) for name in _MOMENTS),
)


def _read_jobs(**expressions: str) -> str:
    expressions["request"] = f"CASE WHEN status = '{JobStatus.QUEUED}' THEN request END"
    columns = ", ".join(expressions.get(name, name) for name in _LOCKED)
    return f"SELECT id, {columns} FROM {_JOBS} WHERE id"  # noqa: S608 - our own names


_LOCK: Final = f"{_read_jobs()} = ANY(%s) ORDER BY id FOR UPDATE"
# With their zone, moments are read at once; as columns, Django would read them first, and without it.
_ZONED: Final = {name: f"{name} || '+00:00'" for name in _MOMENTS}
_LOCK_SQLITE: Final = f"{_read_jobs(**_ZONED)} IN (SELECT value FROM json_each(%s))"  # noqa: S608 - our own names
_JOB_FIELDS: Final = Job._meta.concrete_fields
_JOB_VALUES: Final = attrgetter(*[field.attname for field in _JOB_FIELDS])
_INSERT_JOB: Final = (
    f"INSERT INTO {_JOBS} ({', '.join(str(field.column) for field in _JOB_FIELDS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(['%s'] * len(_JOB_FIELDS))})"
)
_INSERT_EVENT: Final = (
    f"INSERT INTO {_EVENTS} ({', '.join(Event._fields)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(['%s'] * len(Event._fields))})"
)

_PLACE: Final = Booking._fields[:5]
_ADD: Final = ", ".join(f"{name} = {_USAGE}.{name} + excluded.{name}" for name in Booking._fields[5:])
_ADD_USAGE: Final = (
    f"INSERT INTO {_USAGE} ({', '.join(Booking._fields)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join(['%s'] * len(Booking._fields))}) "
    f"ON CONFLICT ({', '.join(_PLACE)}) DO UPDATE SET {_ADD}"
)


@functools.cache
def _update(names: tuple[str, ...]) -> str:
    """Return the statement; the rows are locked, and its condition is the second lock, should that not hold."""
    sets = ", ".join(f"{name} = %s" for name in names)
    return f"UPDATE {_JOBS} SET {sets} WHERE id = %s AND status = %s AND COALESCE(claim_id, %s) = %s"  # noqa: S608
