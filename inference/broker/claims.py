"""The claim as a command and its answer as values; the script is `lua/claim.lua`."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import uuid_utils.compat

from inference import routing
from inference.broker import scripts
from inference.broker.types import Claimed, Credit, Token


@dataclass(frozen=True, slots=True)
class Request:
    """One claim; see `Broker.claim`."""

    queues: tuple[str, ...]
    credit: Credit
    limit: int
    worker: str
    lease_seconds: float
    tier_weights: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Served:
    """The queues of a claim, sorted into what the script walks through."""

    plain: tuple[str, ...]
    model: str
    tiers: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Tier and its (length, queue) pairs, both in order of name."""


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
        b"".join(uuid_utils.compat.uuid7().bytes for _ in range(most)),
        len(served.plain),
        *served.plain,
        served.model,
        *_tier_arguments(served, request.tier_weights),
    ]


def parse(reply: list[Any]) -> list[Claimed]:
    """Read the script's answer: the moment of the claim, then a list per job."""
    now_ms, *rows = reply
    return [_claimed(row, now_ms) for row in rows]


def _tier_arguments(served: _Served, weights: Mapping[str, float]) -> list[scripts.Argument]:
    """Tiers in the order that breaks ties: the heavier first, then by name."""
    tiers = sorted(served.tiers, key=lambda tier: (-weights.get(tier[0], 1.0), tier[0]))
    arguments: list[scripts.Argument] = []
    for tier, lengths in tiers:
        arguments += [
            tier,
            repr(float(weights.get(tier, 1.0))),
            len(lengths),
            *itertools.chain.from_iterable(lengths),
        ]
    return arguments


@functools.lru_cache(maxsize=256)
def _served(queues: tuple[str, ...]) -> _Served:
    plain = tuple(sorted(queue for queue in queues if routing.is_plain(queue)))
    names = [routing.parse(queue) for queue in sorted(set(queues) - set(plain))]
    models = {name.model for name in names}
    if len(models) > 1:
        raise ValueError(f"a claim serves one model, not {sorted(models)}")
    tiers = sorted({name.tier for name in names})
    lengths = {t: tuple(sorted((n.length, str(n)) for n in names if n.tier == t)) for t in tiers}
    return _Served(plain, next(iter(models), ""), tuple(lengths.items()))


def _claimed(row: list[Any], now_ms: int) -> Claimed:
    job_id, claim_id, queue, tenant, prompt, expected, estimate, arrival, mailbox, streamed, body = row
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
    )
