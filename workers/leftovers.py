"""What a claim left: of its offer, and of what waits. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from inference import routing
from inference.broker.types import Claimed, Claims
from inference.guards import NO_ROOM, Room, TierTerms
from workers.terms import MAX_PULL, Offer


def may_be_there(offer: Offer, claims: Claims) -> bool:
    """Whether more may wait that fits: what bounded the claim was not that alone. Never after an empty one."""
    if not claims.jobs:
        return False
    is_full = len(claims.jobs) >= min(MAX_PULL, offer.credit.sequences)
    return is_full or claims.again_ms is not None or claims.jobs[-1].is_parked


def may_have_gathered(offer: Offer, in_flight: int) -> bool:
    """Whether a gather window may have held work back that a worker with `in_flight` jobs would take now: none."""
    return offer.load.in_flight > 0 and in_flight == 0 and any(t.gather_jobs for t in offer.tiers.values())


def of(offer: Offer, jobs: Sequence[Claimed]) -> Offer:
    """Return what an offer is without the jobs that it brought: a claim of this much brings nothing."""
    held: dict[str, Room] = {}
    for job in jobs:
        tier = "" if routing.is_plain(job.queue) else routing.parse(job.queue).tier
        room = held.get(tier, NO_ROOM)
        held[tier] = Room(room.sequences + 1, room.kv_tokens + job.kv_tokens + offer.credit.margin_tokens)
    credit = replace(
        offer.credit,
        sequences=offer.credit.sequences - len(jobs),
        kv_tokens=offer.credit.kv_tokens - sum(room.kv_tokens for room in held.values()),
    )
    tiers = {name: _without(terms, held.get(name, NO_ROOM)) for name, terms in offer.tiers.items()}
    return replace(offer, credit=credit, tiers=tiers)


def _without(terms: TierTerms, held: Room) -> TierTerms:
    if terms.share is None or held is NO_ROOM:
        return terms
    share = Room(terms.share.sequences - held.sequences, terms.share.kv_tokens - held.kv_tokens)
    return replace(terms, share=share)
