"""What a change of limits would refuse or hold back of what is taken now, as an admin is asked about it. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from inference.rows import QueueRow
from inference.states import OnFull

REFUSED: Final = "new jobs get 429 until there are fewer"
FULL: Final[Mapping[str, str]] = {
    OnFull.REJECT: "new jobs get 429",
    OnFull.HOLD: "new calls are put on hold and other new jobs get 429",
    OnFull.SPILL: "new calls are put on hold and other new jobs spill",
}
"""By what a tier's full queues do with more."""
HELD: Final = "no more start until fewer run"
UNKNOWN: Final = "The queues cannot be read now: nobody can say how much this would refuse or hold back."

QUEUE_CAPS: Final = {"max_jobs": "jobs", "max_tokens": "tokens", "max_bytes": "bytes"}
"""Fields of a queue's limits, and which number of its row each bounds."""
TIER_CAPS: Final = {"max_queued_jobs": "jobs", "max_queued_tokens": "tokens", "max_queued_bytes": "bytes"}
"""The same of a tier, for each of its queues."""


def lowered(
    what: str,
    before: float | None,
    after: float | None,
    *,
    now: float,
    then: str,
    there: str = "that there are now",
) -> list[str]:
    """Say that a cap falls below what there is `now`, in the words of `there`; None is no bound."""
    if after is None or not _falls(before, after, now):
        return []
    if after <= 0:
        return [f"{what} of 0: {then.partition(' until ')[0]}."]
    return [f"{what} of {_number(after)} is below the {_number(now)} {there}: {then}."]


def _falls(before: Any, after: Any, now: Any) -> bool:
    """Whether a cap, by falling, comes below what there is now, or to nothing."""
    return bool((before is None or after < before) and (now > after or after <= 0))


def of_queue(before: Any, after: Any, row: QueueRow, *, on_full: str) -> list[str]:
    """Of a change of a queue's limits; `before` and `after` have the fields of `QueueLimit`."""
    told = _caps(QUEUE_CAPS, before, after, [row], row.queue, on_full=on_full)
    told += _in_flight(row.queue, before, after, row.leases)
    if after.is_paused and not before.is_paused:
        told.append(paused(row))
    if after.is_draining and not before.is_draining:
        told.append(drained(row))
    return told


def paused(row: QueueRow) -> str:
    """Of a pause."""
    waiting = _who(row.jobs, "waits in it", "wait in it")
    return f"Pause {row.queue}: nothing of it would start until it is resumed{waiting}."


def drained(row: QueueRow) -> str:
    """Of a drain."""
    waiting = _who(row.jobs, "waits in it", "wait in it")
    return f"Drain {row.queue}: it would take no more jobs (503) until it is resumed{waiting}."


def above_capacity(cap: int | None, row: QueueRow, max_wait: float | None) -> str:
    """Say how long the last in line of a queue would wait whose cap is above what its engines start in time."""
    if cap is None or max_wait is None or not row.capacity or cap <= row.capacity:
        return ""
    wait = max_wait * cap / row.capacity
    return (
        f"{_number(cap)} jobs are more than {row.queue} can start within its tier's max wait, "
        f"{_number(row.capacity)}: the last in line would wait about {_number(round(wait))} s."
    )


def of_tier(before: Any, after: Any, rows: Sequence[QueueRow]) -> list[str]:
    """Of a change of a tier, whose queues are given."""
    told = _caps(TIER_CAPS, before, after, rows, f"Tier {after}", on_full=after.on_full)
    told += _in_flight(f"Tier {after}", before, after, _most_running(rows, lambda row: row.model))
    told += _holding(before, after, rows)
    if before.on_full == OnFull.SPILL and after.on_full != OnFull.SPILL:
        told.append(f"Tier {after}: jobs that a full queue would spill get 429. Those spilled come in as before.")
    waits = [row.expected_wait_seconds for row in rows if row.expected_wait_seconds is not None]
    then = f"{FULL[after.on_full]} until it is shorter"
    return told + lowered(
        f"Tier {after}: max wait in seconds",
        before.max_wait_seconds,
        after.max_wait_seconds,
        now=round(max(waits, default=0.0), 1),
        there="that a new job would wait now",
        then=then,
    )


def of_length(before: Any, after: Any, rows: Sequence[QueueRow]) -> list[str]:
    """Of a change of a length class, whose queues are given."""
    return _in_flight(f"Length class {after}", before, after, _most_running(rows, lambda row: row.model))


def of_model(before: Any, after: Any, rows: Sequence[QueueRow]) -> list[str]:
    """Of a change of a model, whose queues are given."""
    told = _in_flight(f"Model {after}", before, after, sum(row.leases for row in rows))
    told += lowered(
        f"Model {after}: max queued bytes",
        before.max_queued_bytes,
        after.max_queued_bytes,
        now=sum(row.bytes for row in rows),
        then=REFUSED,
    )
    if before.enabled and not after.enabled:
        waiting = _who(sum(row.jobs for row in rows), "that waits would not start", "that wait would not start")
        told.append(f"Disable model {after}: requests get 404{waiting}.")
    return told


def of_tenant(before: Any, after: Any, *, queued: int, unfinished: int) -> list[str]:
    """Of a change of a tenant's limits, who has so many jobs waiting, and so many waiting or running."""
    counts = {"max_queued_jobs": queued, "max_unfinished_jobs": unfinished}
    told = [
        line
        for field, now in counts.items()
        for line in lowered(
            f"Tenant {after}: {_words(field)}",
            getattr(before, field),
            getattr(after, field),
            now=now,
            then=REFUSED,
        )
    ]
    return told + _rates(f"Tenant {after}", before, after, ("requests_per_minute", "tokens_per_minute"))


def of_key(before: Any, after: Any, *, unfinished: int) -> list[str]:
    """Of a change of a key, with so many jobs that wait or run."""
    rates = ("requests_per_second", "requests_per_minute", "tokens_per_minute")
    told = _rates(f"Key {after.name}", before, after, rates)
    return told + ([revoked(after, unfinished)] if after.revoked and not before.revoked else [])


def of_budget(before: Any, after: Any, *, spent: Decimal, write: Callable[[Decimal], str]) -> list[str]:
    """Of a change of a budget, of which so much is spent this month; `write` writes an amount."""
    if not _falls(before.monthly, after.monthly, spent):
        return []
    below = f" is below the {write(spent)} that is spent this month" if after.monthly else ""
    cap = f"Budget of {after.tenant_id} of {write(after.monthly)}{below}"
    return [f"{cap}: what costs gets 429 until the month ends."]


def revoked(key: Any, unfinished: int) -> str:
    """Of the end of a key."""
    left = _who(
        unfinished,
        "that it sent still waits or runs, and goes on; nobody could ask for it with the key",
        "that it sent still wait or run, and go on; nobody could ask for them with the key",
    )
    return f"Revoke key {key.name} of {key.tenant_id}, for ever: requests with it get 401{left}."


def of_worker(name: str, in_flight: int) -> str:
    """Of a pause or drain of a worker."""
    left = _who(in_flight, "that it runs goes on", "that it runs go on")
    return f"{name} would claim nothing more until it is resumed{left}."


def cancelled(waiting: int, running: int, finished: int) -> str:
    """Of a cancel of so many jobs."""
    ends = " and ".join(
        f"{_number(count)} {how}" for count, how in ((waiting, "queued"), (running, "running")) if count
    )
    one = waiting + running == 1
    told = f"Cancel {ends} job{'' if one else 's'}: {'it ends' if one else 'they end'} without an answer"
    return told + _who(finished, "has ended already and stays", "have ended already and stay") + "."


def _caps(
    fields: Mapping[str, str], before: Any, after: Any, rows: Iterable[QueueRow], whose: str, *, on_full: str
) -> list[str]:
    rows = list(rows)
    return [
        line
        for field, number in fields.items()
        for line in lowered(
            f"{whose}: {_words(field)}",
            getattr(before, field),
            getattr(after, field),
            now=max((getattr(row, number) for row in rows), default=0),
            # What takes nothing has no more to come in later: it refuses all, whatever full queues do.
            then=f"{FULL[on_full if getattr(after, field) else OnFull.REJECT]} until there are fewer",
        )
    ]


def _holding(before: Any, after: Any, rows: Sequence[QueueRow]) -> list[str]:
    if before.on_full == OnFull.REJECT:
        return []
    if after.on_full == OnFull.REJECT:
        return [f"Tier {after}: calls that a full queue would take on hold get 429 at once."]
    most = max((row.on_hold for row in rows), default=0)
    what, then = f"Tier {after}: max held jobs", "more calls get 429 at once until there are fewer"
    return lowered(what, before.max_held_jobs, after.max_held_jobs, now=most, then=then)


def _in_flight(whose: str, before: Any, after: Any, running: int) -> list[str]:
    return lowered(f"{whose}: max in flight", before.max_in_flight, after.max_in_flight, now=running, then=HELD)


def _rates(whose: str, before: Any, after: Any, fields: Iterable[str]) -> list[str]:
    """Say of a rate of nothing that it refuses all: what was used in the last minute, nobody is asked about."""
    return [
        line
        for field in fields
        for line in lowered(
            f"{whose}: {_words(field)}", getattr(before, field), getattr(after, field), now=0, then="all get 429"
        )
    ]


def _most_running(rows: Sequence[QueueRow], group: Callable[[QueueRow], str]) -> int:
    """Return the largest number running together: a cap counts each model's apart."""
    names = {group(row) for row in rows}
    return max((sum(row.leases for row in rows if group(row) == name) for name in names), default=0)


def _words(field: str) -> str:
    return field.replace("_", " ")


def _number(value: float) -> str:
    """Return it as pages write numbers: in full, with thin spaces between thousands."""
    return f"{value:,.15g}".replace(",", "\u202f")


def _who(count: int, does: str, they_do: str) -> str:
    """Return the end of a sentence about so many jobs; nothing of none."""
    return f"; {_number(count)} {f'job {does}' if count == 1 else f'jobs {they_do}'}" if count else ""
