"""B4: how much of what realtime leaves idle is filled with bulk work."""

from typing import Final

from bench import backlogged, statistics
from bench.backlogged import Sizes
from bench.row import Measured, Row, Say


def measure(say: Say, sizes: Sizes) -> Measured:
    """Read the bulk tokens from the measurement of B3."""
    found = backlogged.found(sizes, say)
    idle = found.capacity_tokens_per_second - found.realtime_tokens_per_second
    figures = {
        "filled_share": statistics.ratio(found.bulk_tokens_per_second, idle),
        "bulk_tokens_per_second": found.bulk_tokens_per_second,
        "realtime_tokens_per_second": found.realtime_tokens_per_second,
        "capacity_tokens_per_second": found.capacity_tokens_per_second,
        "bulk_in_flight": found.bulk_in_flight,
    }
    return Measured(figures, (*backlogged.notes(sizes), _CAPACITY))


_CAPACITY: Final = (
    "Capacity: that engine directly, twice as many calls under way as slots, all of bulk's mean length."
)

ROW: Final = Row(
    id="B4",
    text="share of the capacity that realtime leaves idle which bulk fills meanwhile (measured with B3)",
    goals=("filled_share >= 0.9",),
    measure=lambda say: measure(say, backlogged.FULL),
    rehearse=lambda say: measure(say, backlogged.SMALL),
)
