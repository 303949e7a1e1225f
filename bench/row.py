"""A row of the suite: what is measured, against what, and how far it must get."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.goals import Goal

Say = Callable[[str], None]
"""Shows how far a long measurement is."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run of a row brought."""

    figures: Mapping[str, float]
    """By name; a goal names one of them. The others say where it comes from, baselines included."""
    notes: tuple[str, ...] = ()
    """What a reader must know to judge the figures: rates, sizes, rounds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table in the results."""

    id: str
    text: str
    goals: tuple[str, ...]
    """As `bench.goals.Goal` reads them; empty for a row that is only reported."""
    measure: Callable[[Say], Measured] = field(repr=False)
    """Run it: baseline and ours, interleaved where that helps."""
    rehearse: Callable[[Say], Measured] | None = field(default=None, repr=False)
    """The same in a small size, to see that it works; its figures are no results. None: only the full size."""
    by_name_only: bool = False
    """A load too long for every run: measured when it is named."""

    def parsed_goals(self) -> tuple[Goal, ...]:
        """Return the goals. Raises ValueError."""
        return tuple(Goal.parse(text) for text in self.goals)
