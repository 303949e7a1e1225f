"""Large requests, which are kept in Django's storage instead of their jobs' rows.

A row whose `request` is empty has its body there, under its id. It is written before the row, and dropped with it.
Fails closed: what cannot be stored is not accepted (503).
"""

import logging
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from inference import errors
from inference.models import Job

logger = logging.getLogger(__name__)

FOLDER: Final = "requests"
YOUNG: Final = timedelta(hours=1)
"""So long a body may be without its row: a submission that is under way."""
IDS_AT_ONCE: Final = 500


class Missing(Exception):
    """A body is not where it was stored, or cannot be read."""


def is_large(request_bytes: int) -> bool:
    """Whether a body of that size is kept in the storage."""
    return request_bytes > settings.BODY_BYTES


def keep(job_id: uuid.UUID, body: str) -> None:
    """Store a body, under a name of its own. Raises errors.Unavailable."""
    try:
        default_storage.save(_name(job_id), ContentFile(body.encode(errors="surrogatepass")))
    except Exception as error:  # a backend's own
        logger.exception("a request was not stored", extra={"action": "body_not_stored", "job_id": job_id})
        raise errors.Unavailable("The request could not be stored; nothing was accepted. Try again.") from error


def read(job_id: uuid.UUID) -> str:
    """Return a stored body. Raises Missing, whatever keeps it from being read."""
    try:
        with default_storage.open(_name(job_id)) as stored:
            content: bytes = stored.read()
        return content.decode(errors="surrogatepass")
    except Exception as error:
        raise Missing(f"the request of job {job_id} cannot be read from the storage") from error


def of(job: Job) -> str:
    """Return a job's request, wherever it is. Raises Missing."""
    return job.request or read(job.pk)


def drop(job_ids: Iterable[uuid.UUID]) -> None:
    """Remove bodies whose jobs are gone, or never came to be. One that cannot be is left, with a log line."""
    for job_id in job_ids:
        try:
            default_storage.delete(_name(job_id))
        except Exception:
            logger.exception("a request was not removed", extra={"action": "body_left", "job_id": job_id})


def prune(now: datetime) -> int:
    """Remove bodies without a row: who was to write it died. Says how many. Young ones may still get theirs."""
    gone = [job_id for ids in _stored() for job_id in _without_row(ids) if _is_old(job_id, now)]
    drop(gone)
    return len(gone)


def _stored() -> Iterator[list[uuid.UUID]]:
    """Yield the ids of all stored bodies, folder by folder."""
    try:
        folders, _ = default_storage.listdir(FOLDER)
    except FileNotFoundError:  # none was ever stored
        return
    for folder in folders:
        _, names = default_storage.listdir(f"{FOLDER}/{folder}")
        yield [uuid.UUID(name.removesuffix(".json")) for name in names]


def _without_row(job_ids: list[uuid.UUID]) -> set[uuid.UUID]:
    parts = [job_ids[i : i + IDS_AT_ONCE] for i in range(0, len(job_ids), IDS_AT_ONCE)]
    return set(job_ids).difference(
        *(Job.objects.filter(id__in=part).values_list("id", flat=True) for part in parts)
    )


def _is_old(job_id: uuid.UUID, now: datetime) -> bool:
    return now - default_storage.get_modified_time(_name(job_id)) > YOUNG


def _name(job_id: uuid.UUID) -> str:
    """Folders of the id's last two digits keep each small: a time-ordered id begins alike for long."""
    return f"{FOLDER}/{job_id.hex[-2:]}/{job_id}.json"
