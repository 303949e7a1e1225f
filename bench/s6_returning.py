"""S6: clients that a full queue refused, and that come back when it told them to."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench import returning, stack, statistics, tenants
from bench.open_load import Request, Spec
from bench.returning import Outcome
from bench.row import Measured, Row, Say
from bench.stack import MODEL, Stack
from bench.tenants import Stream
from bench.trace import Arrival, Engine

SEED: Final = 6
ENGINE: Final = Engine(slots=16, prefill_tps=50_000, decode_tps=25)
SIM: Final = ENGINE.sim()
JOB: Final = Arrival(0, 16, 25, "")
"""A second of work."""
SHAPE: Final = (JOB.prompt_tokens, JOB.output_tokens)
CAP: Final = 32
"""Jobs that may wait: two seconds of work."""
TENANTS: Final = 8
BURST_LOAD, LATER_LOAD = 1.5, 0.8
MODEL_ROW: Final[Mapping[str, Any]] = {
    "max_num_seqs": ENGINE.slots,
    "prefill_tokens_per_second": ENGINE.prefill_tps,
    "decode_tokens_per_second": ENGINE.decode_tps,
    "reserve_share": 0,
}
"""As somebody sets it who knows the engine. No slot is kept for realtime: the load is in relation to all slots."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long it lasts."""

    burst_seconds: float
    later_seconds: float
    """After the burst: who was refused in it comes back then."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Ask for more than the engine can do, then for less."""
    with stack.running("sim", sim=SIM, model=MODEL_ROW) as running:
        running.rows("cap", f"{MODEL}.standard.short", str(CAP))
        requests = _requests(running, sizes)
        say(f"{len(requests)} requests in {sizes.burst_seconds + sizes.later_seconds:g} s")
        outcomes = returning.run(Spec(target=running.api, requests=requests))
    say(f"answers, try by try: {Counter(tuple(outcome.statuses) for outcome in outcomes).most_common(8)}")
    return Measured(_figures(outcomes), _notes(sizes))


def _requests(running: Stack, sizes: Sizes) -> list[Request]:
    keys = list(tenants.keys(running, {f"t{number}": 1.0 for number in range(TENANTS)}).values())
    capacity, ends = 1 / ENGINE.seconds([JOB]), sizes.burst_seconds + sizes.later_seconds
    draw = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    found: list[Request] = []
    for load, begin, end in ((BURST_LOAD, 0.0, sizes.burst_seconds), (LATER_LOAD, sizes.burst_seconds, ends)):
        for key in keys:
            found += tenants.drawn_equal(Stream(key, load * capacity / TENANTS, begin, end, *SHAPE), draw)
    return found


def _figures(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return them. Raises RuntimeError if nobody was refused: then nothing was measured."""
    refused = [outcome for outcome in outcomes if outcome.was_refused]
    if not refused:
        raise RuntimeError("nobody was refused")
    told = [outcome.told_seconds[0] for outcome in refused]
    return {
        "first_retry_share": sum(outcome.came_in_at_once for outcome in refused) / len(refused),
        "refused": len(refused),
        "refused_share": len(refused) / len(outcomes),
        "served_share": sum(outcome.statuses[-1] == 200 for outcome in outcomes) / len(outcomes),
        "most_tries": max(len(outcome.statuses) for outcome in outcomes),
        "told_median_s": statistics.median(told),
        "told_max_s": max(told),
    }


def _notes(sizes: Sizes) -> tuple[str, ...]:
    burst, later = f"{sizes.burst_seconds:g} s", f"{sizes.later_seconds:g} s"
    return (
        f"For {burst} {BURST_LOAD} times what the engine can do, then for {later} {LATER_LOAD} times.",
        f"{TENANTS} tenants; arrivals of a Poisson process.",
        f"Simulated engine with {ENGINE.slots} slots, {SIM}; every job takes a second; at most {CAP} wait.",
        "Calls of /v1/chat/completions. Who gets a 429 asks again just its Retry-After later, 10 times at most.",
        "first_retry_share: of those who were refused when they came first, those whose first retry was let in.",
    )


ROW: Final = Row(
    id="S6",
    text="a burst over a queue's cap: share of the refused clients that are let in when they come back as told",
    goals=("first_retry_share >= 0.9", "served_share >= 1"),
    measure=lambda say: measure(say, Sizes(burst_seconds=60, later_seconds=90)),
    rehearse=lambda say: measure(say, Sizes(burst_seconds=12, later_seconds=18)),
    by_name_only=True,
)
