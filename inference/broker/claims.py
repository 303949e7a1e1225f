"""The claim as a command and its answer as values; the script is `lua/claim.lua`."""

import functools
import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import uuid_utils

from inference import routing
from inference.broker import base, scripts
from inference.broker.types import Claimed, Claims, Token
from inference.guards import ANY_SIZE, NO_LOAD, NO_ROOM, NO_TERMS, Cap, Credit, Load, TierTerms


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
    larger: frozenset[str] = frozenset()
    """Queues that a worker with more KV serves too: what can never fit here is left to it."""
    whole_tokens: int = ANY_SIZE
    """The worker's whole KV cache."""
    caps: tuple[Cap, ...] = ()
    """Those that bind a queue of `queues`."""
    load: Load = NO_LOAD


@dataclass(frozen=True, slots=True)
class _Served:
    """The queues of a claim, sorted into what the script walks through."""

    plain: tuple[str, ...]
    model: str
    tiers: Mapping[str, tuple[tuple[str, str], ...]]
    """Tier -> each length served and its queue, in order of name."""
    names: str
    """Tier and length of all of them, as workers tell one another."""


def script_text() -> str:
    """Return the script's text, for SCRIPT LOAD."""
    return scripts.get("claim").text


def command(prefix: str, request: Request) -> tuple[Any, ...]:
    """Return the arguments of EVALSHA, its name first."""
    return ("EVALSHA", scripts.get("claim").sha, 0, prefix, *arguments(request))


def arguments(request: Request) -> list[scripts.Argument]:
    """Return what the script takes after the prefix. Raises ValueError for queues of more than one model."""
    served, credit, load = _served(request.queues), request.credit, request.load
    most = max(0, min(request.limit, credit.sequences))
    return [
        _packed(
            *(most, max(0, credit.sequences), credit.kv_tokens, credit.margin_tokens),
            *(credit.reserve.sequences, credit.reserve.kv_tokens, credit.may_park),
            *(max(1, round(request.lease_seconds * 1000)), load.in_flight, load.slots),
            *(len(served.tiers), len(request.caps), len(served.plain), request.whole_tokens),
            -1 if credit.alone_ms is None else credit.alone_ms,
        ),
        request.worker,
        b"".join(uuid_utils.uuid7().bytes for _ in range(most)),
        *(served.model, served.names),
        *_tier_arguments(served, request),
        *itertools.chain.from_iterable(_cap_arguments(cap) for cap in request.caps),
        *served.plain,
    ]


def parse(reply: list[Any]) -> Claims:
    """Read the script's answer: the moment of the claim, when to ask again, then a list per job."""
    now_ms, again_ms, *rows = reply
    return Claims([_claimed(row, now_ms) for row in rows], None if again_ms == b"" else int(again_ms))


def _tier_arguments(served: _Served, request: Request) -> list[scripts.Argument]:
    """Tiers in the order that breaks ties: the heavier first, then by name."""
    terms = {tier: request.tiers.get(tier, NO_TERMS) for tier in served.tiers}
    arguments: list[scripts.Argument] = []
    for tier in sorted(terms, key=lambda name: (-terms[name].weight, name)):
        lengths = ",".join(length for length, _ in served.tiers[tier])
        paused = ",".join(length for length, queue in served.tiers[tier] if queue in request.paused)
        larger = ",".join(length for length, queue in served.tiers[tier] if queue in request.larger)
        stem = str(routing.QueueName(served.model, tier, ""))
        arguments += [tier, lengths, paused, larger, stem, _packed_terms(terms[tier])]
    return arguments


def _cap_arguments(cap: Cap) -> list[scripts.Argument]:
    return [cap.jobs, len(cap.queues), *cap.queues]


def _packed_terms(terms: TierTerms) -> bytes:
    share = terms.share or NO_ROOM
    return _packed(
        *(terms.weight, terms.uses_reserve, terms.share is not None, share.sequences, share.kv_tokens),
        *(terms.gather_jobs, round(terms.gather_seconds * 1000), base.target_ms(terms.target_seconds)),
    )


def _packed(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


@functools.lru_cache(maxsize=256)
def _served(queues: tuple[str, ...]) -> _Served:
    plain = tuple(sorted(queue for queue in set(queues) if routing.is_plain(queue)))
    names = sorted({routing.parse(queue) for queue in queues if queue not in plain}, key=str)
    models = {name.model for name in names}
    if len(models) > 1:
        raise ValueError(f"a claim serves one model, not {sorted(models)}")
    tiers = {t: tuple(sorted((n.length, str(n)) for n in names if n.tier == t)) for t in {n.tier for n in names}}
    told = "".join(f" {name.tier}:{name.length}" for name in names)
    return _Served(plain, next(iter(models), ""), tiers, f"{told} ")


def _claimed(row: list[Any], now_ms: int) -> Claimed:
    job_id, claim_id, queue, tenant, prompt, expected, estimate, arrival, mailbox, streamed, body, *flags = row
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
        watched=bool(flags[0]),
        is_parked=bool(flags[1]),
        is_alone=flags[1] == 2,
    )
