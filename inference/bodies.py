"""Large requests, which are kept in Django's storage instead of their jobs' rows.

A row whose `request` is empty has its body there, under its id. It is written before the row, and dropped with it.
Fails closed: what cannot be stored is not accepted (503).
"""

import logging
import uuid
from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from inference import errors
from inference.models import Job

logger = logging.getLogger(__name__)

FOLDER: Final = "requests"


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


def _name(job_id: uuid.UUID) -> str:
    """Folders of the id's last two digits keep each small: a time-ordered id begins alike for long."""
    return f"{FOLDER}/{job_id.hex[-2:]}/{job_id}.json"
