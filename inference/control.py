"""Tells workers to stop what they run, by Celery's remote control."""

import logging
import uuid
from typing import Final

import celery

from inference import broker

logger = logging.getLogger(__name__)

TERMINATE: Final = "terminate"
"""The workers' own command: stops the engine request of a job, or of one claim on it."""


def abort(job_id: uuid.UUID, claim_id: uuid.UUID | None) -> None:
    """Ask whichever worker holds the claim (None: any claim) to stop it now. Expects no answer, raises nothing.

    The worker's next renewal of the lease is the backstop: it learns of the cancel there.
    """
    task_id = str(job_id) if claim_id is None else f"{job_id}:{claim_id}"
    try:
        broker.get_broker().ping()  # fails at once; the broadcast would hold up the caller for seconds
        celery.current_app.control.broadcast(TERMINATE, arguments={"task_id": task_id})
    except Exception as error:  # whatever a broker connection raises, the cancel itself is done
        logger.warning(
            "Abort not broadcast, the lease's renewal will tell: %r",
            error,
            extra={"action": "abort_not_sent", "job_id": job_id, "claim_id": claim_id},
        )
