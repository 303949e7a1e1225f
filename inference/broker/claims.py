"""The claim as a command and its answer as values; the script is `lua/claim.lua`."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import uuid_utils

from inference import routing
from inference.broker import scripts
from inference.broker.types import Claimed, Claims, Token
from inference.guards import NO_LOAD, NO_TERMS, Cap, Credit, Load, TierTerms


@dataclass(frozen=True, slots=True)
class Request:
    """One claim; see `Broker.claim`."""

    queues: tuple[str, ...]
    """Of one model, and plain ones."""
    credit: Credit
    limit: int
    worker: str
    lease_seconds: float
    tiers: Mapping[str, TierTerms] = field(default_factory=dict)
    """A tier that is not there has `TierTerms()`."""
    paused: frozenset[str] = frozenset()
    """Queues that nothing is taken of."""
    caps: tuple[Cap, ...] = ()
    """Those that bind a queue of `queues`."""
    load: Load = NO_LOAD


@dataclass(frozen=True, slots=True)
class _Served:
    """The queues of a claim, sorted into what the script walks through."""

    plain: tuple[str, ...]
    jobs: tuple[str, ...]
    model: str
    lengths: Mapping[str, str]
    """Tier -> its lengths served, in order of name, joined by commas."""


def script_text() -> str:
    """Return the script's text, for SCRIPT LOAD."""
    return scripts.get("claim").text


def command(prefix: str, request: Request) -> tuple[Any, ...]:
    """Return the arguments of EVALSHA, its name first."""
    return ("EVALSHA", scripts.get("claim").sha, 0, prefix, *arguments(request))


def arguments(request: Request) -> list[scripts.Argument]:
    """Return what the script takes after the prefix. Raises ValueError for queues of more than one model."""
    served = _served(request.queues)
    most = max(0, min(request.limit, request.credit.sequences))
    return [
        most,
        request.credit.kv_tokens,
        request.credit.margin_tokens,
        request.worker,
        max(1, round(request.lease_seconds * 1000)),
        b"".join(uuid_utils.uuid7().bytes for _ in range(most)),
        served.model,
        len(served.lengths),
        len(served.plain),
        *_tier_arguments(served, request.tiers),
        *served.plain,
        *served.jobs,
    ]


def parse(reply: list[Any]) -> Claims:
    """Read the script's answer: the moment of the claim, then a list per job."""
    now_ms, *rows = reply
    return Claims([_claimed(row, now_ms) for row in rows])


def _tier_arguments(served: _Served, terms: Mapping[str, TierTerms]) -> list[scripts.Argument]:
    """Tiers in the order that breaks ties: the heavier first, then by name."""
    weights = {tier: terms.get(tier, NO_TERMS).weight for tier in served.lengths}
    tiers = sorted(weights, key=lambda tier: (-weights[tier], tier))
    return [part for tier in tiers for part in (tier, repr(float(weights[tier])), served.lengths[tier])]


@functools.lru_cache(maxsize=256)
def _served(queues: tuple[str, ...]) -> _Served:
    plain = tuple(sorted(queue for queue in set(queues) if routing.is_plain(queue)))
    names = sorted({routing.parse(queue) for queue in queues if queue not in plain}, key=str)
    models = {name.model for name in names}
    if len(models) > 1:
        raise ValueError(f"a claim serves one model, not {sorted(models)}")
    lengths = {t: ",".join(sorted(n.length for n in names if n.tier == t)) for t in {n.tier for n in names}}
    return _Served(plain, tuple(map(str, names)), next(iter(models), ""), lengths)


def _claimed(row: list[Any], now_ms: int) -> Claimed:
    job_id, claim_id, queue, tenant, prompt, expected, estimate, arrival, mailbox, streamed, body, watched = row
    return Claimed(
        token=Token(UUID(bytes=job_id), UUID(bytes=claim_id)),
        queue=queue.decode(),
        tenant=tenant.decode(),
        prompt_tokens=int(prompt),
        expected_tokens=int(expected),
        estimate=float(estimate),
        arrival_ms=int(float(arrival)),
        claimed_ms=now_ms,
        streamed=streamed == b"1",
        body=body,
        mailbox=mailbox.decode(),
        watched=bool(watched),
    )
