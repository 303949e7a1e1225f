"""Takes requests in: checked, counted, routed, admitted, written, published. Or refused, leaving nothing."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.models import Job
from inference.states import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: a tenant by one of its keys."""

    tenant: str
    api_key_id: str | None = None
    tiers: frozenset[str] | None = None
    """Tiers the key may use; None is all."""
    tenant_weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request as a client sent it."""

    endpoint: Endpoint
    body: Mapping[str, Any] = field(repr=False)
    """The parsed JSON body. Not trusted: anything JSON can hold."""
    tier: str | None = None
    """Wins over the body's `service_tier`."""
    stream: bool | None = None
    """None: as the body's `stream` says."""
    synchronous: bool = False
    """The client waits for the answer: the tier's synchronous start deadline holds."""
    mailbox: str = ""
    """The web process that forwards the job's events, if one waits."""


def submit(
    *,
    caller: Caller,
    endpoint: Endpoint,
    body: Mapping[str, Any],
    tier: str | None = None,
    stream: bool | None = None,
    synchronous: bool = False,
    mailbox: str = "",
) -> Job:
    """Accept one request. Raises an `inference.errors` error that names the reason, with nothing left behind."""
    submission = Submission(
        endpoint=endpoint, body=body, tier=tier, stream=stream, synchronous=synchronous, mailbox=mailbox
    )
    return submit_many(caller=caller, items=[submission])[0]


def submit_many(*, caller: Caller, items: Sequence[Submission]) -> list[Job]:
    """Accept all of up to `limits.MAX_JOBS_PER_CALL` requests, or none.

    Errors as of `submit`; with several items their `param` starts with the item's place, as `jobs[3].messages`.
    If Redis goes away between commit and publish the jobs are accepted: the reconciler publishes them.
    """
    raise NotImplementedError


def cancel(*, caller: Caller | None, job_id: uuid.UUID) -> Job:
    """Cancel a job of the caller's tenant (None: of any) and return it as it then is; a finished one stays so.

    The row moves first; then the broker and a broadcast tell the engine's worker. Raises errors.NotFound.
    """
    raise NotImplementedError
