"""`manage.py workers`: who runs what; pause, resume and drain. A worker itself is `manage.py worker`."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from inference import halts, selectors
from inference.halts import Action
from inference.management import halting
from inference.management.tables import table
from inference.rows import WorkerRow
from inference.templatetags import shown

HEADS: Final = ("worker", "state", "model", "serves", "in flight", "slots", "KV tokens", "heard")


class Command(halting.HaltingCommand):
    """A table of the workers, or an act on some."""

    help = "Show every worker as it last reported itself, or pause, resume or drain some."
    noun = "worker"
    pattern_help = "A worker's name, with or without @host, or a shell-style pattern of names, as 'worker-*'."
    acts: Mapping[Action, str] = MappingProxyType(
        {
            Action.PAUSE: "It claims nothing. What runs goes on, and its engine stays loaded.",
            Action.RESUME: "End a pause and a drain.",
            Action.DRAIN: "It finishes what it runs, claims no more, and says when it may be stopped.",
        }
    )

    def rows(self) -> Sequence[WorkerRow]:
        """Return every known worker."""
        return selectors.worker_rows(names_operators=True)

    def drawn(self, rows: Sequence[WorkerRow]) -> str:
        """Return the table."""
        return table(HEADS, [_cells(row) for row in rows], numbers=range(4, 7))

    def halt(self, action: Action, pattern: str) -> list[str]:
        """Halt or resume the workers of the pattern."""
        names = halts.match_workers(pattern)
        halts.halt_workers(action, names, by=halting.by())
        return names


def _cells(row: WorkerRow) -> tuple[str, ...]:
    state = f"{row.state}: {row.state_detail}" if row.state_detail else str(row.state)
    return (
        row.name,
        f"silent ({state})" if row.stale else state,
        row.model,
        " ".join(row.serve),
        shown.count(row.in_flight),
        shown.count(row.slots),
        f"{shown.count(row.kv_used_tokens)} of {shown.count(row.kv_capacity_tokens)}",
        f"{shown.seconds(math.ceil(row.silent_seconds), places=0)} ago",
    )
