"""A refusal in words: which limit, its value, how it stands, and when to come back. Pure."""

import math
from datetime import datetime
from typing import Final

from inference import charges, errors
from inference.admission.terms import Answer, Asked, Reason, Refusal, Usage

MAX_RETRY_AFTER_SECONDS: Final = 120
"""Beyond this no promise: clients would not wait."""
HALTED_RETRY_SECONDS: Final = 30.0
"""Where an operator has to act first, and nobody knows when."""

_CODES: Final = {
    Reason.REQUESTS_PER_SECOND: "rate_limit_exceeded",
    Reason.REQUESTS_PER_MINUTE: "rate_limit_exceeded",
    Reason.TOKENS_PER_MINUTE: "rate_limit_exceeded",
    Reason.TENANT_QUEUED_JOBS: "too_many_jobs",
    Reason.TENANT_UNFINISHED_JOBS: "too_many_jobs",
    Reason.QUEUE_JOBS: "queue_full",
    Reason.QUEUE_TOKENS: "queue_full",
    Reason.QUEUE_BYTES: "queue_full",
    Reason.MODEL_BYTES: "model_full",
    Reason.WAIT: "wait_too_long",
}

_WORDS: Final = {
    Reason.REQUESTS_PER_SECOND: "{who} may make {limit} requests in a second; {value} were made",
    Reason.REQUESTS_PER_MINUTE: "{who} may make {limit} requests in a minute; {value} were made",
    Reason.TOKENS_PER_MINUTE: "{who} may use {limit} tokens in a minute; {value} are used",
    Reason.TENANT_QUEUED_JOBS: "{who} may have {limit} waiting jobs; {value} wait",
    Reason.TENANT_UNFINISHED_JOBS: "{who} may have {limit} jobs that wait or run; {value} do",
    Reason.QUEUE_JOBS: "queue {name} takes at most {limit} waiting jobs; {value} wait or have room kept for them",
    Reason.QUEUE_TOKENS: "queue {name} takes at most {limit} waiting tokens; {value} wait",
    Reason.QUEUE_BYTES: "queue {name} takes at most {limit} bytes of waiting requests; {value} wait",
    Reason.MODEL_BYTES: "all queues of {model} take at most {limit} bytes of requests of this tier; {value} wait",
}
_BUDGET: Final = (
    "{who} may spend {limit} {currency} a month; {spent} are spent, unfinished jobs are expected to cost "
    "{reserved} and these {asked}; the month ends at {ends_at:%Y-%m-%dT%H:%MZ}"
)
_MORE: Final = ", {asked} more asked for"
_WAIT: Final = (
    "a job in queue {name} would wait for about {value:g} s; its tier takes jobs that wait for {limit:g} s"
)


def error(refusal: Refusal, *, fallback_seconds: float, is_paused: bool = False) -> errors.Rejected:
    """Return what the caller reads. Where only some job's end helps, it may come back after `fallback_seconds`.

    A queue that is paused, and a limit of 0, wait for an operator.
    """
    needs_operator = is_paused or refusal.limit == 0
    return errors.Rejected(
        _sentence(refusal),
        code=_CODES[refusal.reason],
        retry_after_seconds=HALTED_RETRY_SECONDS if needs_operator else _retry_after(refusal, fallback_seconds),
        details={
            "reason": str(refusal.reason),
            "limit": _shown(refusal, refusal.limit),
            "current": _shown(refusal, refusal.value),
            "requested": refusal.asked,
        },
    )


def over_budget(refusal: Refusal, *, currency: str, ends_at: datetime) -> errors.Rejected:
    """Return what the caller reads whose jobs would pass a budget: nothing to wait for before the month's end."""
    reserved = refusal.value - refusal.spent
    amounts = {"limit": refusal.limit, "spent": refusal.spent, "reserved": reserved, "requested": refusal.asked}
    amounts["current"] = refusal.value
    told = {name: charges.amount(nano) for name, nano in amounts.items()}
    said = {name: charges.readable(amount) for name, amount in told.items()}
    exact = {name: charges.money(amount) for name, amount in told.items()}
    return errors.Rejected(
        _BUDGET.format(
            who=_who(refusal.name), asked=said["requested"], currency=currency, ends_at=ends_at, **said
        ),
        code="insufficient_quota",
        retry_after_seconds=None,
        details={"reason": str(refusal.reason), **exact, "currency": currency, "ends_at": ends_at.isoformat()},
    )


def _sentence(refusal: Refusal) -> str:
    name, limit, value = refusal.name, refusal.limit, refusal.value
    if refusal.reason is Reason.WAIT:
        return _WAIT.format(name=name, value=_shown(refusal, value), limit=_shown(refusal, limit))
    model = name.rsplit(".", 2)[0]
    said = _WORDS[refusal.reason] + _MORE
    return said.format(name=name, who=_who(name), model=model, limit=limit, value=value, asked=refusal.asked)


def _shown(refusal: Refusal, amount: int) -> float:
    """Return an amount in the unit that callers know: waits in seconds."""
    return round(amount / 1000, 2) if refusal.reason is Reason.WAIT else amount


def rate_headers(asked: Asked, answer: Answer) -> dict[str, str]:
    """Return how the rates stand, as OpenAI says it; of a key and its tenant what leaves less room."""
    key, own = asked.key, asked.limits
    return {
        **_told("requests", (key.requests_per_minute, answer.of_key), (own.requests_per_minute, answer.of_tenant)),
        **_told("tokens", (key.tokens_per_minute, answer.of_key), (own.tokens_per_minute, answer.of_tenant)),
    }


def _told(what: str, *rates: tuple[int | None, Usage | None]) -> dict[str, str]:
    known = [(limit, usage) for limit, usage in rates if limit is not None and usage is not None]
    by_room = sorted(known, key=lambda rate: rate[0] - int(getattr(rate[1], what)))
    return _of_rate(what, *by_room[0]) if by_room else {}


def _of_rate(what: str, limit: int, usage: Usage) -> dict[str, str]:
    left = max(0, limit - int(getattr(usage, what)))
    return {
        f"x-ratelimit-limit-{what}": str(limit),
        f"x-ratelimit-remaining-{what}": str(left),
        f"x-ratelimit-reset-{what}": _duration(usage.clear_ms),
    }


def _duration(ms: int) -> str:
    """Return a time as OpenAI writes it: `17ms`, `1.2s`, `1m0s`."""
    if ms < 1000:
        return f"{ms}ms"
    minutes, rest = divmod(ms, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _who(name: str) -> str:
    kind, is_named, rest = name.partition("=")
    if not is_named:
        return f"tenant {name}"
    return "this key" if kind == "key" else f"tenant {rest}"


def _retry_after(refusal: Refusal, fallback_seconds: float) -> float | None:
    if refusal.reason is not Reason.WAIT and refusal.asked > refusal.limit:
        return None  # never: it is more than the limit by itself
    seconds = fallback_seconds if refusal.retry_ms is None else refusal.retry_ms / 1000
    return float(min(MAX_RETRY_AFTER_SECONDS, max(1, math.ceil(seconds))))
