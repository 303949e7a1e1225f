"""Which limit refuses, in the order that `docs/admission.md` has. Pure; `broker/lua/admit.lua` decides the same.

Nothing here reserves: the script does, in the same step. A property test holds one against the other.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from inference.admission.drained import NOTHING, Drained
from inference.admission.terms import Asked, QueueTerms, Reason, Refusal
from inference.admission.windows import Window

BEARS: Final = 2
"""Times the max wait, as measured, with which somebody is let in whose turn has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFacts:
    """How a queue stands; what is reserved counts as waiting."""

    jobs: int
    tokens: int
    bytes: int
    model_bytes: int
    """In all queues of its model."""
    line_jobs: int
    """In all queues of its tier."""
    line_work_ms: int
    """What those are expected to take, each for itself."""
    before: Sequence[tuple[int, int]] = ()
    """The same two of each weightier tier."""
    leases: int
    """Jobs that run, of all queues of its model."""
    work_ms: int = 0
    """What its own waiting jobs are expected to take, each for itself."""
    own_leases: int = 0
    """Its own jobs that run."""
    held: int = 0
    """Of its jobs, those on hold."""
    spilled: int = 0
    """Kept out of it."""
    drained: Drained = NOTHING
    """How it moved of late."""
    own_jobs: int = 0
    """Of its waiting jobs, the asking tenant's that a claim may take."""
    tier_waiting: int = 0
    """Jobs of its model and tier that wait, without those reserved."""
    tier_own: int = 0
    """Of these, the asking tenant's that a claim may take."""
    tier_tenants: int = 0
    """Tenants with such jobs."""
    has_turn: bool = False
    """Whether the asker's turn has come, by the virtual line."""
    kept: int = 0
    """Those whose turn it is, refused before and asked to come back by now: room is kept for them."""
    soon: int = 0
    """Those, and the ones whose turn comes within `BEARS` times the max wait: nobody new goes before them."""
    own_soon: int = 0
    """Of these, the asking tenant's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How everything stands that is asked about."""

    now_ms: int
    second: Window
    minute: Window
    """Of the key."""
    tenant_minute: Window
    tenant_queued: int
    tenant_unfinished: int
    spending: Mapping[str, tuple[int | None, int]] = field(default_factory=dict)
    """By payer: what ended jobs cost this month (None: not known), and what unfinished ones are expected to."""
    queues: Mapping[str, QueueFacts]


@dataclass(frozen=True, slots=True)
class Amount:
    """What the jobs ask of one queue."""

    jobs: int
    tokens: int
    bytes: int
    work_ms: int
    cost: int = 0
    """Expected, in billionths of the currency."""
    largest_tokens: int = 0
    """Of any one of the jobs."""
    largest_bytes: int = 0


def decide(asked: Asked, amounts: Mapping[str, Amount], facts: Facts) -> Refusal | None:
    """Return what refuses, or None if all of it is taken. Turns to come back are the broker's to give."""
    found = (
        *_rates(asked, amounts, facts),
        *_tenant(asked, facts),
        *_budgets(asked, amounts, facts),
        *_queues(asked, amounts, facts),
    )
    return found[0] if found else None


def wait_ms(terms: QueueTerms, amount: Amount, facts: QueueFacts) -> int:
    """Return how long the last of the jobs would wait: the longer of what is expected and what was measured.

    0 if they could start at once. Of their tier's jobs, and those that room is kept for, only those count that go
    first if tenants take turns. Whose turn has come by the virtual line is let in at the rate at which jobs leave:
    that changes no wait, but for what leaves more slowly than it did.
    """
    parts = _parts_before(amount, facts)
    wait = _wait_by_work(terms, amount, facts, facts.soon, parts)
    if not wait:
        return 0
    measured = facts.drained.wait_ms(facts.jobs + facts.soon + amount.jobs) * parts.of_queue
    return math.ceil(max(wait, measured / BEARS if facts.has_turn else measured))


def _starts_at_once(terms: QueueTerms, amount: Amount, facts: QueueFacts) -> bool:
    """Whether they could: then no room is kept from them, or a slot might stay empty for nobody."""
    return _wait_by_work(terms, amount, facts, 0, _ALL) == 0


class _Parts(NamedTuple):
    """Which part goes before the last of the jobs, of what waits and what room is kept for."""

    of_tier: float
    of_queue: float


_ALL: Final = _Parts(1.0, 1.0)


def _parts_before(amount: Amount, facts: QueueFacts) -> _Parts:
    """Reckon with turns of tenants; of the queue at least with its own: other lengths do not thin these out."""
    tenants, more = facts.tier_tenants + (facts.tier_own == 0), facts.own_soon + amount.jobs
    of_tier = min(1, (facts.tier_own + more) * tenants / (facts.tier_waiting + facts.soon + amount.jobs))
    own = (facts.own_jobs + more) / (facts.jobs + facts.soon + amount.jobs)
    return _Parts(of_tier, min(1, max(of_tier, own)))


def _wait_by_work(terms: QueueTerms, amount: Amount, facts: QueueFacts, kept: int, parts: _Parts) -> int:
    """Return how long the last would wait behind a part of its line, once the free slots are taken.

    Of weightier tiers that counts which goes before that part by weight. Where caps in flight leave the queue
    fewer slots, at least as long as behind a part of its own jobs in those.
    """
    jobs, work = _ahead(amount, facts.line_jobs, facts.line_work_ms, kept, parts.of_tier)
    more = [_by_weight(tier.ratio, work, *known) for tier, known in zip(terms.before, facts.before, strict=True)]
    all_jobs, all_work = _added((jobs, work), more)
    wait = _wait(all_jobs, all_work, terms.slots - facts.leases, terms.slots)
    if terms.own_slots is None:
        return wait
    jobs, work = _ahead(amount, facts.jobs, facts.work_ms, kept, parts.of_queue)
    return max(wait, _wait(jobs, work, terms.own_slots - facts.own_leases, terms.own_slots))


def _ahead(amount: Amount, jobs: int, work_ms: int, kept: int, part: float) -> tuple[float, float]:
    """Return the jobs that go first, with those that ask, and their work; what is not there yet takes the mean."""
    ahead = (jobs + kept + amount.jobs) * part
    return ahead, ahead * ((work_ms + amount.work_ms) / max(1, jobs + amount.jobs))


def _by_weight(ratio: float, work: float, jobs: int, all_work: int) -> tuple[float, float]:
    part = min(1, ratio * work / all_work) if all_work > 0 else 1
    return jobs * part, all_work * part


def _added(first: tuple[float, float], more: Iterable[tuple[float, float]]) -> tuple[float, float]:
    jobs, work = first
    for more_jobs, more_work in more:
        jobs, work = jobs + more_jobs, work + more_work
    return jobs, work


def _wait(jobs: float, work: float, free: int, slots: int) -> int:
    to_end = jobs - max(0, free)
    return 0 if to_end <= 0 else math.ceil(to_end * work / jobs / slots)


def _rates(asked: Asked, amounts: Mapping[str, Amount], facts: Facts) -> Iterator[Refusal]:
    requests, tokens = len(asked.jobs), sum(amount.tokens for amount in amounts.values())
    tenant, key, own = f"tenant={asked.tenant}", asked.key, asked.limits
    for reason, name, window, limit, more in (
        (Reason.REQUESTS_PER_SECOND, asked.owner, facts.second, key.requests_per_second, requests),
        (Reason.REQUESTS_PER_MINUTE, asked.owner, facts.minute, key.requests_per_minute, requests),
        (Reason.TOKENS_PER_MINUTE, asked.owner, facts.minute, key.tokens_per_minute, tokens),
        (Reason.REQUESTS_PER_MINUTE, tenant, facts.tenant_minute, own.requests_per_minute, requests),
        (Reason.TOKENS_PER_MINUTE, tenant, facts.tenant_minute, own.tokens_per_minute, tokens),
    ):
        of = "tokens" if reason is Reason.TOKENS_PER_MINUTE else "requests"
        counts = [(bucket.at, getattr(bucket, of)) for bucket in window.live(facts.now_ms)]
        value = int(sum(count for _, count in counts))
        if limit is not None and value + more > limit:
            after = window.fits_after_ms(counts, more, limit, facts.now_ms)
            yield Refusal(reason, name, limit, value, more, after)


def _tenant(asked: Asked, facts: Facts) -> Iterator[Refusal]:
    for reason, limit, value in (
        (Reason.TENANT_QUEUED_JOBS, asked.limits.max_queued_jobs, facts.tenant_queued),
        (Reason.TENANT_UNFINISHED_JOBS, asked.limits.max_unfinished_jobs, facts.tenant_unfinished),
    ):
        if limit is not None and value + len(asked.jobs) > limit:
            yield Refusal(reason, asked.tenant, limit, value, len(asked.jobs))


def _budgets(asked: Asked, amounts: Mapping[str, Amount], facts: Facts) -> Iterator[Refusal]:
    """Yield for each budget that would be passed; what costs nothing passes none."""
    cost = sum(amount.cost for amount in amounts.values())
    for budget in asked.budgets if cost > 0 else ():
        spent, reserved = facts.spending[budget.owner]
        if spent is None:
            yield Refusal(Reason.SPENT_UNKNOWN, budget.owner, budget.nano, 0, cost)
        elif spent + reserved + cost > budget.nano:
            yield Refusal(Reason.BUDGET, budget.owner, budget.nano, spent + reserved, cost, spent=spent)


def _queues(asked: Asked, amounts: Mapping[str, Amount], facts: Facts) -> Iterator[Refusal]:
    for terms in asked.queues:
        amount, of_queue = amounts[terms.name], facts.queues[terms.name]
        if not is_spilled(terms, amount, of_queue) and held(terms, amount, of_queue) is None:
            yield from _queue(terms, amount, of_queue)


def held(terms: QueueTerms, amount: Amount, facts: QueueFacts) -> Refusal | None:
    """Return what a queue would refuse jobs for that it takes on hold; None: it takes or refuses them."""
    found = list(_queue(terms, amount, facts))
    is_barred = any(each.reason is Reason.MODEL_BYTES or _never_fits(each) for each in found)
    has_place = facts.held + amount.jobs <= terms.held_jobs
    return found[0] if found and has_place and not is_barred else None


def _never_fits(refusal: Refusal) -> bool:
    return refusal.reason is not Reason.WAIT and refusal.asked > refusal.limit


def is_spilled(terms: QueueTerms, amount: Amount, facts: QueueFacts) -> bool:
    """Whether the jobs are kept out of the queue: it is full, or others wait before them to come in.

    One that the queue would never take is refused instead, and so are all while it takes none.
    """
    if not terms.may_spill or not terms.caps.jobs:
        return False
    if any(
        limit is not None and size > limit
        for limit, size in (
            (terms.caps.tokens, amount.largest_tokens),
            (terms.caps.bytes, amount.largest_bytes),
            (terms.model_bytes, amount.largest_bytes),
        )
    ):
        return False
    return facts.spilled > 0 or next(_queue(terms, amount, facts), None) is not None


def _queue(terms: QueueTerms, amount: Amount, facts: QueueFacts) -> Iterator[Refusal]:
    caps, name, is_at_once = terms.caps, terms.name, _starts_at_once(terms, amount, facts)
    taken = facts.jobs + (0 if is_at_once else facts.kept)
    if taken + amount.jobs > caps.jobs:
        yield Refusal(Reason.QUEUE_JOBS, name, caps.jobs, taken, amount.jobs)
    for reason, limit, value, more in (
        (Reason.QUEUE_TOKENS, caps.tokens, facts.tokens, amount.tokens),
        (Reason.QUEUE_BYTES, caps.bytes, facts.bytes, amount.bytes),
        (Reason.MODEL_BYTES, terms.model_bytes, facts.model_bytes, amount.bytes),
    ):
        if limit is not None and value + more > limit:
            yield Refusal(reason, name, limit, value, more)
    wait = 0 if is_at_once else wait_ms(terms, amount, facts)
    if terms.max_wait_ms is not None and wait > terms.max_wait_ms:
        yield Refusal(Reason.WAIT, name, terms.max_wait_ms, wait, amount.jobs)
