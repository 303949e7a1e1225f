"""Admissions as the script takes and answers them."""

import itertools
import struct
from typing import Any

from inference import routing
from inference.admission.terms import Answer, Asked, QueueTerms, Reason, Refusal, Usage, Wanted
from inference.broker import keys, rates, scripts

_NONE = -1.0


def arguments(asked: Asked, hold_ms: int) -> list[scripts.Argument]:
    """Return what `lua/admit.lua` reads; `hold_ms` is how long it holds what it reserves."""
    places = {terms.name: i for i, terms in enumerate(asked.queues, start=1)}
    queues = itertools.chain.from_iterable(_queue(asked.owner, terms) for terms in asked.queues)
    jobs = itertools.chain.from_iterable(_job(job, places[job.queue]) for job in asked.jobs)
    payers: list[scripts.Argument] = []
    for budget in asked.budgets:
        payers += (budget.owner, budget.nano)
    ticket = asked.ticket or asked.owner
    return [_head(asked, hold_ms), asked.tenant, asked.owner, ticket, asked.month, *payers, *queues, *jobs]


def parse(asked: Asked, reply: list[Any]) -> Answer:
    """Read the answer."""
    reason, name, limit, value, more, after, spent, of_key, of_tenant, learned = reply
    refusal = None
    if reason:
        numbers = (int(limit), int(value), int(more), int(after) if after else None)
        refusal = Refusal(Reason(reason.decode()), name.decode(), *numbers, int(spent or 0))
    by_queue = {
        terms.name: rates.parse_learned(output, speed)
        for terms, (output, speed, *_) in zip(asked.queues, learned, strict=True)
    }
    names = [terms.name for terms in asked.queues]
    held = {name: _held(name, *told) for name, (_, _, told, _) in zip(names, learned, strict=True) if told}
    spilled = frozenset(name for name, (*_, is_spilled) in zip(names, learned, strict=True) if is_spilled)
    return Answer(refusal, by_queue, _usage(of_key), _usage(of_tenant), held, spilled)


def _held(name: str, reason: bytes, limit: bytes, value: bytes, more: bytes) -> Refusal:
    return Refusal(Reason(reason.decode()), name, int(limit), int(value), int(more))


def _usage(told: Any) -> Usage | None:
    return Usage(*map(int, told)) if told else None


def _head(asked: Asked, hold_ms: int) -> bytes:
    key, own = asked.key, asked.limits
    limits = (
        *(key.requests_per_second, key.requests_per_minute, key.tokens_per_minute),
        *(own.requests_per_minute, own.tokens_per_minute, own.max_queued_jobs, own.max_unfinished_jobs),
    )
    return _packed(len(asked.queues), len(asked.jobs), hold_ms, *map(_or_none, limits), len(asked.budgets))


def _queue(owner: str, terms: QueueTerms) -> list[scripts.Argument]:
    name, caps = routing.parse(terms.name), terms.caps
    numbers = _packed(
        caps.jobs,
        *map(_or_none, (caps.tokens, caps.bytes, terms.max_wait_ms)),
        terms.slots,
        _or_none(terms.own_slots),
        terms.prompt_ms,
        terms.output_ms,
        terms.expected_tokens,
        _or_none(terms.model_bytes),
        terms.held_jobs,
        terms.may_spill,
        len(terms.line),
        len(terms.line) + sum(len(tier.queues) for tier in terms.before) + len(terms.others),
        *terms.costs,
    )
    weights = _packed(*(number for tier in terms.before for number in (tier.ratio, len(tier.queues))))
    learned = keys.output(owner, name.model, name.length) if terms.learns else ""
    names = (*terms.line, *(queue for tier in terms.before for queue in tier.queues), *terms.others)
    return [terms.name, numbers, weights, learned, keys.speed(name.model), *names]


def _job(job: Wanted, place: int) -> tuple[bytes, bytes]:
    return job.job_id.bytes, _packed(place, job.prompt_tokens, job.most_tokens, job.bytes)


def _or_none(limit: int | None) -> float:
    return _NONE if limit is None else limit


def _packed(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)
