"""B2: what the way through the stack adds to the first token when nothing else runs."""

from typing import Final

from bench import load, stack, statistics
from bench.row import Measured, Row, Say

REQUESTS: Final = 300
WARM_UP: Final = 30
PROMPT_TOKENS: Final = 32
OUTPUT_TOKENS: Final = 2
SIM: Final = "--decode-tps 50"


def measure(say: Say) -> Measured:
    """Ask the engine directly and through the stack, in turn, one request at a time."""
    with stack.running("sim", sim=SIM) as running:
        say(f"the stack is ready; {WARM_UP} requests each to warm up, then {REQUESTS}")
        targets = [running.engine, running.api]
        load.run(_spec(targets, WARM_UP))
        _, (direct, ours) = load.run(_spec(targets, REQUESTS))
    base = [1000 * answer.first_seconds for answer in direct]
    added = [1000 * answer.first_seconds - statistics.median(base) for answer in ours]
    figures = {
        "p50_ms": statistics.median(added),
        "p99_ms": statistics.percentile(added, 0.99),
        "p90_ms": statistics.percentile(added, 0.9),
        "least_ms": min(added),
        "direct_p50_ms": statistics.median(base),
        "direct_p99_ms": statistics.percentile(base, 0.99),
    }
    return Measured(figures, _NOTES)


_NOTES: Final = (
    f"{REQUESTS} streamed realtime requests of {PROMPT_TOKENS} tokens, one at a time, after {WARM_UP} to warm up.",
    f"Each once directly into the engine and once through the stack; the simulated engine with {SIM}.",
    "Added: time to the first byte of content, less the median of the direct ones.",
)


def _spec(targets: list[load.Target], requests: int) -> load.Spec:
    body = stack.body(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS, service_tier="priority")
    return load.Spec(targets=targets, requests=requests, at_once=1, body=body, streamed_share=1.0)


ROW: Final = Row(
    id="B2",
    text="added latency to the first token of a realtime stream when idle",
    goals=("p50_ms <= 5", "p99_ms <= 15"),
    measure=measure,
)
