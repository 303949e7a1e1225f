"""Takes requests in: prepared, admitted, written, published. Or refused, leaving nothing."""

import contextlib
import functools
import hashlib
import itertools
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db import IntegrityError, InterfaceError, OperationalError, transaction
from django.utils import timezone

from inference import (
    bodies,
    broker,
    control,
    durability,
    errors,
    estimates,
    lifecycle,
    preparation,
    publication,
    routing,
    selectors,
    snapshot,
    tier_choice,
)
from inference.admission import entrance
from inference.admission.holds import Hold
from inference.admission.terms import Candidate
from inference.estimates import Demand
from inference.joint_commit import JointCommit
from inference.lifecycle import NewJob
from inference.limits import MAX_JOBS_PER_CALL, Limits
from inference.models import Job
from inference.preparation import Caller, Prepared, Submission
from inference.states import RETRYABLE, Endpoint

__all__ = ["Accepted", "Caller", "Submission", "cancel", "retry", "submit", "submit_many", "take"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Jobs that were taken."""

    jobs: list[Job]
    holds: Sequence[Hold | None]
    """Of each, on what terms it is on hold."""
    headers: Mapping[str, str]
    """How the caller's rates stand, as OpenAI names it; empty where it has none."""


def submit(  # noqa: PLR0913 - the fields of a Submission, all by name
    *,
    caller: Caller,
    endpoint: Endpoint,
    body: Mapping[str, Any],
    tier: str | None = None,
    stream: bool | None = None,
    synchronous: bool = False,
    mailbox: str = "",
    job_id: uuid.UUID | None = None,
) -> Job:
    """Accept one request. Raises an `inference.errors` error that names the reason, with nothing left behind."""
    item = Submission(
        endpoint=endpoint,
        body=body,
        tier=tier,
        stream=stream,
        synchronous=synchronous,
        mailbox=mailbox,
        job_id=job_id,
    )
    return submit_many(caller=caller, items=[item])[0]


def submit_many(*, caller: Caller, items: Sequence[Submission]) -> list[Job]:
    """Accept all of up to `limits.MAX_JOBS_PER_CALL` requests, or none.

    Errors as of `submit`; with several items their `param` starts with the item's place, as `jobs[3].messages`.
    If Redis goes away between commit and publish the jobs are accepted: the reconciler publishes them.
    """
    return take(caller=caller, items=items).jobs


def take(*, caller: Caller, items: Sequence[Submission]) -> Accepted:
    """Do as `submit_many`, for who tells the client how its rates stand."""
    if not 1 <= len(items) <= MAX_JOBS_PER_CALL:
        raise errors.InvalidRequest(f"jobs: from 1 to {MAX_JOBS_PER_CALL}, not {len(items)}", param="jobs")
    limits = snapshot.limits()
    prepared = preparation.prepare(caller, items, limits=limits, now=timezone.now())
    offer = _offer(caller, prepared)
    taken = entrance.admit(offer, limits)
    with _database_explained(), _withdrawn_on_failure(offer):
        jobs, disk = _write(list(_finished(prepared, taken)))
    _wait_for(disk)
    return Accepted(jobs, taken.holds, taken.headers)


def cancel(*, caller: Caller | None, job_id: uuid.UUID) -> Job:
    """Cancel a job of the caller's tenant (None: of any) and return it as it then is; a finished one stays so.

    The row moves first; then the broker and a broadcast tell the engine's worker. Raises errors.NotFound.
    """
    tenant = None if caller is None else caller.tenant
    selectors.check_exists(tenant, job_id)
    [applied] = lifecycle.apply([lifecycle.Cancel(job_id, "by an admin" if caller is None else "by the client")])
    job = selectors.job_for(tenant, job_id)
    if applied.moved:
        transaction.on_commit(functools.partial(_tell_cancelled, applied, job.tier_id))
    return job


def retry(*, caller: Caller | None, job_id: uuid.UUID) -> Job:
    """Queue a failed, cancelled or expired job anew, by hand, and return it.

    Raises errors.NotFound, errors.InvalidRequest if it is in another status, errors.Forbidden if the caller's key
    may not use its tier, and what admission raises.
    """
    tenant, limits = None if caller is None else caller.tenant, snapshot.limits()
    job = selectors.job_for(tenant, job_id)
    if caller is not None:
        tier_choice.pick(limits, job.tier_id, None, allowed=caller.tiers)
    offer = _offer_of(caller, job, limits)
    entrance.admit(offer, limits)
    with _withdrawn_on_failure(offer):
        _queue_anew(job_id)
    entry = publication.entry_of(job, tenant_weight=job.tenant.weight, is_retry=True)
    transaction.on_commit(functools.partial(publication.publish, [entry]))
    return selectors.job_for(tenant, job_id)


def _queue_anew(job_id: uuid.UUID) -> None:
    [applied] = lifecycle.apply([lifecycle.Retry(job_id)])
    if not applied.moved:
        message = f"job {job_id} is {applied.status}; only {', '.join(sorted(RETRYABLE))} jobs can be retried"
        raise errors.InvalidRequest(message, code="not_retryable", status=409)


def _finished(prepared: Sequence[Prepared], taken: entrance.Taken) -> Iterator[tuple[NewJob, broker.Entry]]:
    for item, learned, hold, spilled in zip(prepared, taken.learned, taken.holds, taken.spilled, strict=True):
        seconds = hold.seconds if hold else None
        yield preparation.finish(item, learned, hold_seconds=seconds, is_spilled=spilled)


def _offer(caller: Caller, prepared: Sequence[Prepared]) -> entrance.Offer:
    owner = estimates.owner(api_key_id=caller.api_key_id, tenant=caller.tenant)
    return entrance.Offer(
        tenant=caller.tenant,
        owner=owner,
        key_limits=caller.key_limits,
        tenant_limits=caller.tenant_limits,
        ticket=f"{owner}:{_digest(prepared)}",
        candidates=[
            Candidate(
                job_id=item.job_id,
                queue=item.queue,
                model=item.model,
                demand=item.demand,
                request_bytes=item.request_bytes,
                may_be_held=item.draft.submission.synchronous,
                may_be_spilled=not item.draft.submission.synchronous,
            )
            for item in prepared
        ],
    )


def _digest(prepared: Sequence[Prepared]) -> str:
    """Name requests by what they ask: one that comes again asks the same."""
    digest = hashlib.blake2b(digest_size=8)
    for item in prepared:
        digest.update(item.body.encode(errors="surrogatepass"))
    return digest.hexdigest()


def _offer_of(caller: Caller | None, job: Job, limits: Limits) -> entrance.Offer:
    """Return the offer of a job that is queued again. An admin's (no caller) goes by no rate."""
    if job.model_id not in limits.models:
        raise errors.NotFound(f"model {job.model_id!r} is not served any more", code="model_not_found")
    candidate = Candidate(
        job_id=job.id,
        queue=routing.parse(job.queue),
        model=limits.models[job.model_id],
        demand=Demand(job.prompt_tokens, job.expected_tokens),
        request_bytes=job.request_bytes,
        expected_tokens=job.expected_tokens,
    )
    if caller is None:
        return entrance.Offer(tenant=job.tenant_id, owner=f"tenant={job.tenant_id}", candidates=[candidate])
    return entrance.Offer(
        tenant=caller.tenant,
        owner=estimates.owner(api_key_id=caller.api_key_id, tenant=caller.tenant),
        key_limits=caller.key_limits,
        tenant_limits=caller.tenant_limits,
        candidates=[candidate],
    )


def _write(accepted: Sequence[tuple[NewJob, broker.Entry]]) -> tuple[list[Job], durability.Disk]:
    with _bodies_kept([job for job, _ in accepted]) as rows:
        entries = [entry for job, entry in accepted if not job.is_spilled]
        return _commit(_Written(rows, entries), rows=len(rows))


@dataclass(frozen=True, slots=True)
class _Written:
    """What one call writes, and then publishes."""

    rows: Sequence[NewJob]
    entries: Sequence[broker.Entry]


def _insert(calls: Sequence[_Written]) -> list[list[Job]]:
    """Insert the rows of several calls, and return those of each."""
    jobs = iter(lifecycle.create([row for call in calls for row in call.rows]))
    return [list(itertools.islice(jobs, len(call.rows))) for call in calls]


def _publish(calls: Sequence[_Written]) -> None:
    publication.publish([entry for call in calls for entry in call.entries])


_commit: Final = JointCommit(_insert, then=_publish)


def _wait_for(disk: durability.Disk) -> None:
    """Return when what is committed survives the machine: then a client is told. Raises errors.Unavailable."""
    try:
        disk.wait()
    except OperationalError as error:
        message = "The disk failed; it is not sure whether the request stays on record."
        raise errors.Unavailable(message) from error


@contextlib.contextmanager
def _bodies_kept(jobs: Sequence[NewJob]) -> Iterator[list[NewJob]]:
    """Give the jobs with their large bodies in the storage; these are dropped if what follows fails."""
    large = [job for job in jobs if bodies.is_large(job.request_bytes)]
    try:
        for job in large:
            bodies.keep(job.id, job.request)
        yield [replace(job, request="") if bodies.is_large(job.request_bytes) else job for job in jobs]
    except BaseException:
        bodies.drop(job.id for job in large)
        raise


@contextlib.contextmanager
def _database_explained() -> Iterator[None]:
    """Say what a write failed for, as a caller can understand it. Raises errors.Unavailable."""
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise errors.Unavailable("The database cannot be reached; nothing was accepted. Try again.") from error
    except IntegrityError as error:  # key, tier or model was deleted within the second that they are cached for
        message = "The key or a limit was removed meanwhile; nothing was accepted. Try again."
        raise errors.Unavailable(message) from error


@contextlib.contextmanager
def _withdrawn_on_failure(offer: entrance.Offer) -> Iterator[None]:
    """Give the reservations back if what they were made for fails."""
    try:
        yield
    except BaseException:
        entrance.withdraw(offer, offer.candidates)
        raise


def _tell_cancelled(applied: lifecycle.Applied, tier: str) -> None:
    is_held, terms = applied.claim_id is not None, snapshot.limits().tiers.get(tier)
    target = terms.target_wait_seconds if terms else None
    try:
        where = broker.get_broker().cancel(applied.job_id, target_seconds=target)
        is_held |= where == "leased"  # claimed, and not begun or parked
    except broker.BrokerAway as error:
        extra = {"action": "cancel_not_told", "job_id": applied.job_id}
        logger.warning("Cancel not told to the broker, the reconciler will: %s", error, extra=extra)
    if is_held:
        control.abort(applied.job_id, applied.claim_id)
