"""B3: what realtime calls feel of a full queue of bulk work."""

from typing import Final

from bench import backlogged, statistics
from bench.backlogged import Sizes
from bench.row import Measured, Row, Say


def measure(say: Say, sizes: Sizes) -> Measured:
    """Compare the first tokens with the engine's own and with a worker group's that has no bulk."""
    found = backlogged.found(sizes, say)
    ours, direct, alone = map(backlogged.first_p99, (found.ours, found.direct, found.alone))
    figures = {
        "queue_p99_ms": 1000 * statistics.percentile(found.queue_seconds, 0.99),
        "first_token_over_direct": statistics.ratio(ours, direct),
        "first_token_over_alone": statistics.ratio(ours, alone),
        "queue_p50_ms": 1000 * statistics.median(found.queue_seconds),
        "first_token_p99_ms": 1000 * ours,
        "direct_first_token_p99_ms": 1000 * direct,
        "alone_first_token_p99_ms": 1000 * alone,
        "calls": len(found.ours),
    }
    return Measured(figures, backlogged.notes(sizes))


ROW: Final = Row(
    id="B3",
    text="realtime under a full bulk backlog: queue time; first token ÷ the engine directly; ÷ a group of its own",
    goals=("queue_p99_ms <= 50", "first_token_over_direct <= 1.1", "first_token_over_alone <= 1.1"),
    measure=lambda say: measure(say, backlogged.FULL),
    rehearse=lambda say: measure(say, backlogged.SMALL),
)
