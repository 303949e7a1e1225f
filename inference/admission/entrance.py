"""The one way in: limits and fleet are looked up, and the broker checks and reserves in one step.

Fails closed while Redis is away (503). Limits and workers that cannot be read are taken as last known.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import django.conf
from django.db import Error

from inference import broker, budgets, capacity, charges, clock, errors, estimates
from inference.admission import engines, parts, refusals
from inference.admission.holds import Hold
from inference.admission.terms import Answer, Asked, Candidate, QueueTerms, Reason, Refusal, Wanted
from inference.broker.queues import JOBS_PER_SCRIPT
from inference.capacity import Fleet, Line, Replica
from inference.estimates import Learned, Rates
from inference.limits import NO_KEY_LIMITS, NO_TENANT_LIMITS, KeyLimits, Limits, QueueCaps, TenantLimits
from inference.routing import QueueName
from inference.states import OnFull

logger = logging.getLogger(__name__)

_rates: dict[str, Rates] = {}
"""By model, as the last answers had them: what own jobs are expected to take before an answer is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What a queue goes by for as long as limits and fleet are the same ones: about a second."""

    fleet: Fleet
    caps: QueueCaps
    max_wait_ms: int | None
    own_slots: int | None
    model_bytes: int
    line: Line


class _Standings:
    """Of all queues by the same limits and fleet. With newer ones all go: else rare queues kept old ones alive."""

    def __init__(self, limits: Limits, replicas: tuple[Replica, ...]) -> None:
        self.limits, self.replicas = limits, replicas
        self.by_queue: dict[str, _Standing] = {}

    def of(self, queue: QueueName) -> _Standing:
        """Return a queue's. Thread-safe: at worst two threads reckon the same."""
        name = str(queue)
        if name not in self.by_queue:
            self.by_queue[name] = _reckoned(queue, self.limits, self.replicas)
        return self.by_queue[name]


_latest: list[_Standings] = []
"""The ones that were asked for last, or none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One caller's jobs, to be taken together or not at all."""

    tenant: str
    owner: str
    """`estimates.owner`."""
    key_limits: KeyLimits = NO_KEY_LIMITS
    tenant_limits: TenantLimits = NO_TENANT_LIMITS
    ticket: str = ""
    """By which it is known again if it was told to come back (see `Asked`)."""
    candidates: Sequence[Candidate] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Taken:
    """What is known of jobs that were taken."""

    learned: Sequence[Learned]
    """Of each candidate, what its estimate goes by."""
    holds: Sequence[Hold | None]
    """Of each, on what terms it is on hold."""
    spilled: Sequence[bool]
    """Of each, whether it is kept out of its queue: the feeder brings it there."""
    headers: dict[str, str]
    """How the rates stand, for the answer."""


def admit(offer: Offer, limits: Limits) -> Taken:
    """Take all jobs of the offer, or none: in one script for each JOBS_PER_SCRIPT of them.

    Raises errors.Rejected, or errors.Unavailable without Redis, without workers, or while a queue drains. What was
    reserved is published or withdrawn, else it lapses after a minute.
    """
    learned: list[Learned] = []
    holds: list[Hold | None] = []
    spilled: list[bool] = []
    headers: dict[str, str] = {}
    known: dict[str, Learned] = {}
    for i in range(0, len(offer.candidates), JOBS_PER_SCRIPT):
        try:
            answer, headers = _admit(offer, i, known, limits)
        except errors.SluiceError:
            withdraw(offer, offer.candidates[:i])
            raise
        part = _part(offer, i)
        learned += [known[str(each.queue)] for each in part]
        holds += [_hold(offer, each, answer, limits) for each in part]
        spilled += [str(each.queue) in answer.spilled for each in part]
    return Taken(learned, holds, spilled, headers)


def withdraw(offer: Offer, candidates: Sequence[Candidate]) -> None:
    """Give back what was reserved for some of them. Without Redis it lapses."""
    try:
        broker.get_broker().withdraw(offer.owner, [each.job_id for each in candidates])
    except broker.BrokerAway:
        logger.warning("Reservations not withdrawn, they lapse", extra={"action": "withdraw_failed"})


def _part(offer: Offer, start: int) -> Sequence[Candidate]:
    return offer.candidates[start : start + JOBS_PER_SCRIPT]


def _admit(offer: Offer, start: int, known: dict[str, Learned], limits: Limits) -> tuple[Answer, dict[str, str]]:
    """Take the part that begins there, and note what is known of its queues. Returns how the rates stand too."""
    part = _part(offer, start)
    asked = _asked(offer, part, limits)
    answer = _answer(asked)
    if answer.refusal and answer.refusal.reason is Reason.SPENT_UNKNOWN:
        _read_spending(asked)
        answer = _answer(asked)
    _remember(part, answer)
    known.update(answer.learned)
    told = parts.of_whole(answer, known, offer.candidates, start)
    headers = refusals.rate_headers(asked, told)
    if told.refusal:
        is_paused = limits.of_queue(told.refusal.name).is_paused
        refused = _refused(told.refusal, fallback_seconds=_seconds(part, answer), is_paused=is_paused)
        refused.headers = headers
        raise refused
    return answer, headers


def _asked(offer: Offer, part: Sequence[Candidate], limits: Limits) -> Asked:
    return Asked(
        tenant=offer.tenant,
        owner=offer.owner,
        key=offer.key_limits,
        limits=offer.tenant_limits,
        ticket=offer.ticket,
        budgets=limits.budgets_of(offer.tenant, offer.owner),
        month=broker.text_of(charges.day_of(clock.reckoned())),
        queues=list(_queues(part, limits)),
        jobs=[_wanted(each) for each in part],
    )


def _answer(asked: Asked) -> Answer:
    try:
        return broker.get_broker().admit(asked)
    except broker.BrokerAway as error:
        raise errors.Unavailable("The queue cannot be reached; nothing was accepted. Try again.") from error


def _read_spending(asked: Asked) -> None:
    """Tell the broker what was spent, if it lost that or a month began. Without that nothing is taken."""
    try:
        budgets.refresh(asked.budgets, clock.reckoned())
    except (Error, broker.BrokerAway) as error:
        raise _spent_unknown() from error


def _refused(
    refusal: Refusal, *, fallback_seconds: float, is_paused: bool
) -> errors.Rejected | errors.Unavailable:
    if refusal.reason is Reason.SPENT_UNKNOWN:
        return _spent_unknown()
    if refusal.reason is Reason.BUDGET:
        month = charges.month_of(charges.day_of(clock.reckoned()))
        return refusals.over_budget(refusal, currency=django.conf.settings.CURRENCY, ends_at=budgets.end_of(month))
    return refusals.error(refusal, fallback_seconds=fallback_seconds, is_paused=is_paused)


def _spent_unknown() -> errors.Unavailable:
    message = "It cannot be read what was spent of the budget; nothing was accepted. Try again."
    return errors.Unavailable(message, code="spending_unknown")


def _queues(part: Sequence[Candidate], limits: Limits) -> Iterator[QueueTerms]:
    for each in {str(each.queue): each for each in part}.values():
        yield queue_terms(each, limits)


def queue_terms(asks: Candidate, limits: Limits) -> QueueTerms:
    """Return what a queue goes by now. Raises errors.Unavailable if it drains, or nobody serves it and may not."""
    name, model, tier = str(asks.queue), asks.model, limits.tiers[asks.queue.tier]
    if limits.of_queue(name).is_draining:
        raise draining(name)
    stands = _standing(asks.queue, limits)
    if not stands.fleet.replicas and not model.scales_from_zero:
        message = f"no worker of model {model.name} lives; it takes no jobs until one does"
        raise errors.Unavailable(message, code="no_worker", retry_after_seconds=refusals.HALTED_RETRY_SECONDS)
    rates = _rates.get(model.name, estimates.configured(model))
    return QueueTerms(
        name=name,
        caps=stands.caps,
        max_wait_ms=stands.max_wait_ms,
        slots=stands.fleet.slots,
        own_slots=stands.own_slots,
        prompt_ms=1000 / rates.prefill,
        output_ms=1000 / rates.decode,
        expected_tokens=model.default_output_tokens if asks.expected_tokens is None else asks.expected_tokens,
        learns=asks.expected_tokens is None,
        model_bytes=stands.model_bytes,
        held_jobs=tier.max_held_jobs if asks.may_be_held and tier.on_full is not OnFull.REJECT else 0,
        may_spill=asks.may_be_spilled and tier.on_full is OnFull.SPILL,
        line=stands.line.own,
        before=stands.line.before,
        others=stands.line.others,
        costs=limits.prices.units(model.name, tier.name, clock.reckoned()),
    )


def _standing(queue: QueueName, limits: Limits) -> _Standing:
    replicas, known = engines.replicas(), next(iter(_latest), None)
    if known is None or known.limits is not limits or known.replicas is not replicas:
        known = _Standings(limits, replicas)
        _latest[:] = [known]
    return known.of(queue)


def _reckoned(queue: QueueName, limits: Limits, replicas: tuple[Replica, ...]) -> _Standing:
    name, model, tier = str(queue), limits.models[queue.model], limits.tiers[queue.tier]
    fleet, caps = capacity.fleet(limits, name, replicas), limits.queue_caps(name, tier.name)
    wait = capacity.max_wait_seconds(tier, caps, model, fleet)
    share = capacity.share(tier, list(limits.tiers.values()), model.emergency_watermark)
    everywhere = sum(each.model == model.name for each in replicas)
    return _Standing(
        fleet=fleet,
        caps=caps,
        max_wait_ms=None if wait is None else round(wait * 1000),
        own_slots=capacity.own_slots(fleet, limits.caps_in_flight(name, tier.name, queue.length)),
        model_bytes=round(capacity.model_bytes(model, everywhere) * share),
        line=capacity.line(queue, limits.tiers.values(), limits.lengths),
    )


def draining(queue: str) -> errors.Unavailable:
    """Return the refusal of a queue that an operator drains; nobody knows for how long."""
    message = f"queue {queue} is draining: it takes no more jobs until an operator resumes it"
    return errors.Unavailable(message, code="queue_draining", retry_after_seconds=refusals.HALTED_RETRY_SECONDS)


def _wanted(asks: Candidate) -> Wanted:
    most = asks.model.max_model_len - asks.demand.prompt_tokens
    if asks.demand.max_tokens is not None:
        most = min(most, asks.demand.max_tokens)
    return Wanted(asks.job_id, str(asks.queue), asks.demand.prompt_tokens, most, asks.request_bytes)


def _hold(offer: Offer, taken: Candidate, answer: Answer, limits: Limits) -> Hold | None:
    refusal = answer.held.get(str(taken.queue))
    if refusal is None:
        return None
    seconds = limits.tiers[taken.queue.tier].hold_seconds
    ticket = offer.ticket or offer.owner
    return Hold(refusal, seconds, ticket, offer.tenant, service_seconds=_seconds([taken], answer))


def _remember(part: Sequence[Candidate], answer: Answer) -> None:
    for each in part:
        _rates[each.model.name] = answer.learned[str(each.queue)].rates(each.model)


def _seconds(part: Sequence[Candidate], answer: Answer) -> float:
    """Return how long one engine takes for as much as was asked for: then there is room for it."""
    known = answer.learned
    return sum(known[str(c.queue)].seconds(c.model, c.demand) / c.model.max_num_seqs for c in part)
