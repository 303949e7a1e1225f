"""How pages write numbers."""

import math
import uuid
from datetime import datetime
from decimal import Decimal
from typing import Final

from django import template
from django.utils.formats import date_format

from inference import charges, clock, edits
from inference.models import Edit, QueueLimit, WorkerLimit
from inference.objectives import Attained, Mark, Objective, Verdict
from inference.rows import QueueRow, Totals

register = template.Library()

NONE: Final = "\N{EN DASH}"


@register.filter
def seconds(value: float | None, places: int = 1) -> str:
    """Return a duration as people say it: `40 ms`, `3.2 s`, `12 min`, `5 h`; a dash for none."""
    if value is None:
        return NONE
    if value < 1:
        return f"{value * 1000:.0f} ms" if value else "0 s"
    if value < 120:
        return f"{value:.{places}f} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.0f} h"


@register.filter
def age(moment: datetime) -> str:
    """Return the time since then, in whole seconds: it is read while it grows."""
    return seconds(math.ceil(max(0.0, (clock.reckoned() - moment).total_seconds())), places=0)


@register.filter
def until(moment: datetime | None) -> str:
    """Return the time until then, in whole seconds: `about 12 s`, `at once`; empty if nobody can tell."""
    if moment is None:
        return ""
    left = math.ceil(max(0.0, (moment - clock.reckoned()).total_seconds()))
    return f"in about {seconds(left, places=0)}" if left else "at once"


@register.filter
def words(code: str) -> str:
    """Return a code as people say it: `no free slot`, `no free KV`."""
    return code.replace("_", " ").replace("kv", "KV")


@register.filter
def ahead(position: int | None) -> str:
    """Return how many go before the one at this position; empty if none does, or it is in no queue."""
    return f"{count(position - 1)} before it" if position and position > 1 else ""


@register.filter
def halted(row: QueueLimit | WorkerLimit) -> str:
    """Return how it stands since somebody paused, drained or resumed it, who and when; a dash if nobody did."""
    if not row.halted_at:
        return NONE
    at = date_format(row.halted_at, "DATETIME_FORMAT")
    return f"{halted_by(row)}, {age(row.halted_at)} ago ({at})"


@register.filter
def halted_by(row: QueueLimit | WorkerLimit | QueueRow) -> str:
    """Return how it stands, and who said so last: `paused by user ada`; empty if nobody did."""
    state = " and ".join(["paused"] * row.is_paused + ["draining"] * row.is_draining) or "resumed"
    return f"{state} by {row.halted_by}" if row.halted_by else ""


@register.filter
def since(later: datetime | None, earlier: datetime | None) -> str:
    """Return the time between two moments; a dash if one is not known."""
    return seconds((later - earlier).total_seconds()) if later and earlier else NONE


@register.filter
def short(job_id: uuid.UUID) -> str:
    """Return enough of an id to tell jobs apart by: when it was made, and what is random in it."""
    return f"{str(job_id)[:8]}…{str(job_id)[-4:]}"


@register.filter
def money(amount: Decimal) -> str:
    """Return an amount as people read it: two decimals, and of less than one cent the first two that count."""
    return charges.readable(amount)


@register.filter
def count(value: int | None) -> str:
    """Return a number with thin spaces between thousands; a dash for none."""
    return NONE if value is None else f"{value:,}".replace(",", "\u202f")


@register.filter
def rate(per_second: float | None) -> str:
    """Return how often in a second, or in a minute: `3.2/s`, `4/min`; a dash for none."""
    if not per_second:
        return NONE
    return f"{per_second:.1f}/s" if per_second >= 1 else f"{per_second * 60:.2g}/min"


def drained(row: QueueRow) -> str:
    """Return in a line how much may wait in a queue, how fast it drains, and which share starts in time."""
    in_time = f"; in time over 5 min, 1 h, 24 h: {kept(row.objective)}" if row.objective else ""
    return (
        f"cap {count(row.cap)}, capacity {count(row.capacity)}; {count(row.jobs)} wait, "
        f"{rate(row.claims_per_second)} start, a new one would wait {seconds(row.expected_wait_seconds)}{in_time}"
    )


@register.filter
def share(of_all: float | None) -> str:
    """Return a share in per cent, to a tenth and never rounded up: `99.9 %`; a dash for none."""
    return NONE if of_all is None else f"{math.floor(of_all * 1000 + 1e-9) / 10:,.15g} %".replace(",", "\u202f")


@register.filter
def aim(objective: Objective) -> str:
    """Return what should start in time: `95 % within 100 ms`, no line ends before a unit; a dash for none."""
    if objective.share is None:
        return NONE
    within = objective.within_seconds
    told, wait = (text.replace(" ", "\N{NO-BREAK SPACE}") for text in (share(objective.share), seconds(within)))
    return f"{told} {'before the deadline' if within is None else f'within {wait}'}"


def attained(window: Attained) -> str:
    """Return how it went over a window: `99.2 %`, `91 % in time, missed`; a dash without jobs."""
    return share(window.share) + (" in time, missed" if window.verdict is Verdict.MISSED else "")


def kept(objective: Objective) -> str:
    """Return how it went over all windows, the shortest first: `100 % · 99.2 % · 91 % in time, missed`."""
    return " · ".join(map(attained, objective.windows))


@register.filter
def in_time_mark(row: QueueRow | Totals) -> str:
    """Return how its objective stands, one of `objectives.Mark`; empty if nothing is known."""
    return (row.objective.mark(row.backlog_seconds) if row.objective else None) or ""


@register.filter
def in_time(row: QueueRow | Totals) -> str:
    """Return the badge: `100 % in time`, `91 % in time, missed`, `100 % in time so far`; else nothing."""
    return _started(row, "in time")


@register.filter
def share_in_time(row: QueueRow | Totals) -> str:
    """Return the same for a column of that name: `100 %`, `91 %, missed`, `none so far`."""
    return _started(row, "")


def _started(row: QueueRow | Totals, how: str) -> str:
    mark, latest = in_time_mark(row), row.objective.latest if row.objective else None
    if latest is None:
        return " ".join(filter(None, ["none", how, "so far"])) if mark else ""
    ends = {Mark.MISSED: ", missed", Mark.LATE: " so far"}
    return " ".join(filter(None, [share(latest.share), how])) + (ends.get(Mark(mark), "") if mark else "")


@register.filter
def in_time_in_words(row: QueueRow | Totals) -> str:
    """Return what should start in time, how it went by how many jobs, and who waits too long: for a title."""
    if row.objective is None:
        return ""
    told = [
        f"{w.window}: {share(w.share)} of {count(w.jobs)}, {words(w.verdict)}"
        for w in row.objective.windows
        if w.jobs
    ]
    within = row.objective.within_seconds
    late = within is not None and row.backlog_seconds > within
    now = [f"now the oldest waits {seconds(row.backlog_seconds)}"] if late else []
    return "; ".join([f"objective {aim(row.objective)}", *told, *now])


@register.filter
def value(of_field: object) -> str:
    """Return what a row held, as people say it: a dash for nothing."""
    if of_field is None or of_field in ("", []):
        return NONE
    if isinstance(of_field, bool):
        return "yes" if of_field else "no"
    if isinstance(of_field, datetime):
        return date_format(of_field, "DATETIME_FORMAT")
    if isinstance(of_field, list):
        return ", ".join(map(str, of_field))
    return f"{of_field:,}".replace(",", "\u202f") if isinstance(of_field, int) else str(of_field)


@register.filter
def changes(edit: Edit) -> list[str]:
    """Return each field that an edit changed, from and to: `max jobs: 20 → 5`."""
    pairs = {edits.label(edit, name): map(value, pair) for name, pair in edits.named(edit).items()}
    told = {name: (before, after) for name, (before, after) in pairs.items()}
    return [f"{name}: {before} → {after}" for name, (before, after) in told.items() if before != after]


@register.filter
def title(edit: Edit) -> str:
    """Return what was edited: `tier bulk`."""
    return edits.title_of(edit)
