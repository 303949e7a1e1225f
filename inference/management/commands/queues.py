"""`manage.py queues`: what waits, why, and for how long; pause, resume and drain."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from inference import halts, selectors
from inference.halts import Action
from inference.management import halting
from inference.management.tables import table
from inference.rows import QueueRow
from inference.templatetags import shown

HEADS: Final = (
    *("queue", "jobs", "tokens", "backlog", "in flight", "rate", "expected wait"),
    *("in time (5 min · 1 h · 24 h)", "spilled", "watermark", "halted", "why it waits"),
)


class Command(halting.HaltingCommand):
    """A table of the queues, or an act on some."""

    help = "Show every queue with its backlog and what holds it, or pause, resume or drain some."
    noun = "queue"
    pattern_help = "A queue's name, or a shell-style pattern of names, as '*.bulk.*'."
    acts: Mapping[Action, str] = MappingProxyType(
        {
            Action.PAUSE: "Claim nothing from it. It takes jobs, and their start deadlines stand still.",
            Action.RESUME: "End a pause and a drain.",
            Action.DRAIN: "Take no more jobs (503); what waits is worked off.",
        }
    )

    def rows(self) -> Sequence[QueueRow]:
        """Return every job queue."""
        return selectors.queue_rows(names_operators=True)

    def drawn(self, rows: Sequence[QueueRow]) -> str:
        """Return the table."""
        return table(HEADS, [_cells(row) for row in rows], numbers=range(1, 7))

    def halt(self, action: Action, pattern: str) -> list[str]:
        """Halt or resume the queues of the pattern."""
        names = halts.match_queues(pattern)
        halts.halt_queues(action, names, by=halting.by())
        return names


def _cells(row: QueueRow) -> tuple[str, ...]:
    halted = [word for word, is_so in (("paused", row.is_paused), ("draining", row.is_draining)) if is_so]
    why = f"{row.waiting_reason}: {row.waiting_detail}" if row.waiting_reason else ""
    return (
        row.queue,
        shown.count(row.jobs),
        shown.count(row.tokens),
        shown.seconds(row.backlog_seconds),
        shown.count(row.leases),
        shown.rate(row.claims_per_second),
        shown.seconds(row.expected_wait_seconds),
        shown.kept(row.objective) if row.objective else "",
        shown.count(row.spilled),
        row.watermark,
        ", ".join(halted),
        why,
    )
