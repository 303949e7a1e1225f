"""When a part that died is started again, and when it is given up. Pure."""

from dataclasses import dataclass
from typing import Final

FIRST_DELAY_SECONDS: Final = 0.5
LONGEST_DELAY_SECONDS: Final = 10.0
STEADY_SECONDS: Final = 60.0
"""A run this long that was ready clears the slate."""
MOST_USELESS_RUNS: Final = 5
"""So many runs in a row that ended before the part was ready: it failed for good."""


@dataclass(slots=True)
class Restarts:
    """The record of one part's deaths."""

    short_runs: int = 0
    useless_runs: int = 0

    @property
    def failed_for_good(self) -> bool:
        """Whether another start would be in vain."""
        return self.useless_runs >= MOST_USELESS_RUNS

    def died(self, *, ran_seconds: float, was_ready: bool) -> float:
        """Note a death; return the seconds to wait before the next start, doubling with each short run."""
        self.useless_runs = 0 if was_ready else self.useless_runs + 1
        steady = was_ready and ran_seconds >= STEADY_SECONDS
        self.short_runs = 1 if steady else self.short_runs + 1
        # The cap also keeps the power small however long this goes on.
        return min(FIRST_DELAY_SECONDS * 2.0 ** min(self.short_runs - 1, 10), LONGEST_DELAY_SECONDS)
