"""A synchronous call: a job that lives only as long as its client listens."""

import asyncio
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import uuid_utils.compat

from inference import errors, executor, fields, results, snapshot, submission
from inference.admission import engines, holds
from inference.admission.holds import Hold
from inference.api import ahead
from inference.broker.types import CHUNK, END, GAP, INTERRUPTED, Event
from inference.models import Job
from inference.states import HOLD_ENDED, TERMINAL, Endpoint, JobStatus
from inference.submission import Caller, Submission

logger = logging.getLogger(__name__)

OUTPUT: Final = frozenset({CHUNK, END, INTERRUPTED, GAP})

_cancelling: Final[set[asyncio.Task[None]]] = set()
"""The event loop itself holds tasks only weakly."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What the answer must say of an accepted job."""

    tier: str
    service_tier: str
    """The tier as OpenAI's `service_tier` spells it."""
    streamed: bool
    hold: Hold | None
    """On what terms the job is on hold."""
    rate_headers: Mapping[str, str]


class Call:
    """One call and its job. `abandon` must run when the request ends, however it ends."""

    def __init__(self, caller: Caller, inbox: results.Inbox) -> None:
        self.caller = caller
        self.inbox = inbox
        self.is_settled = False
        """Nothing is left to cancel: the job ended, its output was delivered, or it goes on for the record."""
        self._submitting: asyncio.Task[Accepted] | None = None
        self._hold: Hold | None = None

    async def submit(
        self, endpoint: Endpoint, body: Mapping[str, Any], *, mailbox: str, body_bytes: int
    ) -> Accepted:
        """Submit the job. Raises what `submission.submit` and `executor.run_for` raise."""
        job_id = self.inbox.job_id
        ahead.plan("limits", _read_limits, seconds_left=snapshot.seconds_left())
        ahead.plan("replicas", _read_replicas, seconds_left=engines.seconds_left())
        work = executor.run_for(
            body_bytes, _submit, self.caller, endpoint, body, job_id=job_id, mailbox=mailbox, synchronous=True
        )
        self._submitting = asyncio.create_task(work)
        # The client may leave now: the submission goes on, and `abandon` cancels what it made.
        accepted = await asyncio.shield(self._submitting)
        self._hold = accepted.hold
        return accepted

    async def hear(self) -> list[Event]:
        """Wait for what matters to the client: output, its end, the job's end. Returns all that is there."""
        while True:
            heard = [e for e in await self.inbox.get() if e.kind in OUTPUT or e.kind in TERMINAL]
            self.is_settled = self.is_settled or any(e.kind in TERMINAL for e in heard)
            if heard:
                return heard

    async def start(self) -> list[Event]:
        """Wait for output or for the job's end. Output of an attempt that broke off unseen is left out."""
        while True:
            heard = await self.hear()
            broke_off = max((i for i, e in enumerate(heard) if e.kind == INTERRUPTED), default=-1)
            heard = [e for e in heard[broke_off + 1 :] if e.kind != END or heard[0].kind == CHUNK]
            if heard:
                return heard

    async def finish(self) -> Job:
        """Wait for the job's end and return its row. Errors as of `row`."""
        while not self.is_settled:
            await self.hear()
        return await self.row()

    async def row(self) -> Job:
        """Return the job's row. Raises errors.Rejected if the job ended on hold."""
        job = await executor.run(_read, self.inbox.job_id)
        if self._hold and (job.status, job.error_code) == (JobStatus.EXPIRED, HOLD_ENDED):
            raise await executor.run(holds.refused, self._hold)
        return job

    async def abandon(self) -> None:
        """Cancel the job unless the call is settled; done when the cancel is, whoever cancels the caller."""
        if self.is_settled or self._submitting is None:
            return
        cancelling = asyncio.create_task(self._cancel(self._submitting))
        _cancelling.add(cancelling)
        cancelling.add_done_callback(_cancelling.discard)
        await asyncio.shield(cancelling)

    async def _cancel(self, submitting: "asyncio.Task[Accepted]") -> None:
        await asyncio.wait([submitting])
        if submitting.cancelled() or submitting.exception() is not None:
            return  # nothing was accepted
        try:
            await executor.run(submission.cancel, caller=self.caller, job_id=self.inbox.job_id)
        except Exception:
            # Redis or the database is away. The job will run and its answer stay on record: no worse than that.
            logger.exception("cancel failed", extra={"action": "cancel_failed", "job_id": self.inbox.job_id})


def answer(job: Job) -> str:
    """Return a finished job's result. Raises the error that its status stands for."""
    match job.status:
        case "succeeded":
            return job.result
        case "failed" if job.error_code == "bad_request":
            message = job.error_message
            raise errors.InvalidRequest(message, code=job.error_code, param=fields.blamed(message))
        case "failed":
            raise errors.JobFailed(job.error_message or "The job failed.", code=job.error_code or "failed")
        case "expired":
            message = "The job was not started by its start deadline."
            raise errors.JobFailed(message, code="start_deadline_passed", status=504)
        case "cancelled":
            raise errors.JobFailed("The job was cancelled.", code="cancelled", status=409)
    raise AssertionError(job.status)


def new_job_id() -> uuid.UUID:
    """Return an id for a job to be: made before the job, so that its events can be listened for."""
    return uuid_utils.compat.uuid7()


async def _read_limits() -> None:
    """Read the limits that submissions go by, before they are too old."""
    await executor.run(snapshot.limits, max_age_seconds=ahead.LEAD_SECONDS)


async def _read_replicas() -> None:
    """Likewise the workers."""
    await executor.run(engines.replicas, max_age_seconds=ahead.LEAD_SECONDS)


def _submit(
    caller: Caller,
    endpoint: Endpoint,
    body: Mapping[str, Any],
    *,
    job_id: uuid.UUID,
    mailbox: str,
    synchronous: bool,
) -> Accepted:
    item = Submission(endpoint=endpoint, body=body, job_id=job_id, mailbox=mailbox, synchronous=synchronous)
    taken = submission.take(caller=caller, items=[item])
    job = taken.jobs[0]
    tier = snapshot.limits().tiers.get(job.tier_id)
    service_tier = tier.service_tiers[0] if tier and tier.service_tiers else job.tier_id
    return Accepted(
        tier=job.tier_id,
        service_tier=service_tier,
        streamed=job.streamed,
        hold=taken.holds[0],
        rate_headers=taken.headers,
    )


def _read(job_id: uuid.UUID) -> Job:
    return Job.objects.defer("request").get(id=job_id)
