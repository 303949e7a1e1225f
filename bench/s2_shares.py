"""S2: how two tenants that both ask for more than their share divide an engine."""

import random
from dataclasses import dataclass
from typing import Final

from bench import open_load, stack, statistics, tenants
from bench.open_load import Spec, all_good
from bench.row import Measured, Row, Say
from bench.tenants import Stream
from bench.trace import Arrival, Engine

ENGINE: Final = Engine(slots=32, prefill_tps=100_000, decode_tps=50)
SIM: Final = ENGINE.sim()
PROMPT_TOKENS: Final = 64
OUTPUT_TOKENS: Final = 100
"""On average."""
SEED: Final = 2


@dataclass(frozen=True, slots=True)
class Case:
    """Two tenants, a and b."""

    name: str
    loads: tuple[float, float]
    """As shares of what the engine can do."""
    weights: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    settle_seconds: float
    """Until both have a backlog."""
    seconds: float


CASES: Final = (Case("equal", (0.95, 0.6), (1, 1)), Case("weighted", (0.95, 0.95), (3, 1)))


def measure(say: Say, sizes: Sizes) -> Measured:
    """Run each case on a fresh stack and count the tokens of what ended."""
    figures: dict[str, float] = {}
    for case in CASES:
        share, wanted = _share(case, sizes), case.weights[0] / sum(case.weights)
        say(f"{case.name}: a got {share:.3f} of the tokens, {wanted:.3f} wanted")
        figures |= {f"{case.name}_off": abs(share / wanted - 1), f"{case.name}_share": share}
    return Measured(figures, _notes(sizes))


def _share(case: Case, sizes: Sizes) -> float:
    end, draw = sizes.settle_seconds + sizes.seconds, random.Random(SEED)  # noqa: S311 - repeatable on purpose
    with stack.running("sim", sim=SIM, model={"max_num_seqs": ENGINE.slots}) as running:
        known = tenants.keys(running, dict(zip("ab", case.weights, strict=True)))
        streams = [
            Stream(known[name], load * _jobs_per_second(), 0, end, PROMPT_TOKENS, OUTPUT_TOKENS)
            for name, load in zip("ab", case.loads, strict=True)
        ]
        requests = sorted((r for each in streams for r in tenants.drawn(each, draw)), key=lambda r: r.at)
        answers = all_good(open_load.run(Spec(target=running.api, requests=requests)))
        jobs = running.jobs()
    began = answers[0].sent_at - requests[0].at
    window = (began + sizes.settle_seconds, began + end)
    served = {name: tenants.served_tokens(jobs, name, window) for name in "ab"}
    return statistics.ratio(served["a"], served["a"] + served["b"])


def _jobs_per_second() -> float:
    """Return what the engine can do."""
    return 1 / ENGINE.seconds([Arrival(0, PROMPT_TOKENS, OUTPUT_TOKENS, "")])


def _notes(sizes: Sizes) -> tuple[str, ...]:
    return (
        f"Simulated engine with {ENGINE.slots} slots, {SIM}: {_jobs_per_second():.1f} jobs/s; one tier.",
        f"Poisson arrivals, outputs exponential around {OUTPUT_TOKENS} tokens, {PROMPT_TOKENS} tokens in.",
        f"Tokens of jobs that ended in {sizes.seconds:g} s after {sizes.settle_seconds:g} s to settle.",
        "Equal: loads 0.95 and 0.6, weights 1 : 1. Weighted: loads 0.95 each, weights 3 : 1.",
    )


ROW: Final = Row(
    id="S2",
    text="tokens served of two tenants that ask for more than their shares, against 50 : 50 and 75 : 25",
    goals=("equal_off <= 0.05", "weighted_off <= 0.05"),
    measure=lambda say: measure(say, Sizes(settle_seconds=40, seconds=90)),
    rehearse=lambda say: measure(say, Sizes(settle_seconds=10, seconds=15)),
    by_name_only=True,
)
