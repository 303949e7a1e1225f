"""B15: how evenly a burst spreads over idle workers."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from bench import stack, statistics
from bench.open_load import Request, Spec, all_good
from bench.open_load import run as send
from bench.row import Measured, Row, Say
from bench.stack import Stack

WORKERS: Final = 4
SIM: Final = "--decode-tps 20"
OUTPUT_TOKENS: Final = 20
"""A second of work: nobody is done before the burst is."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    jobs: int
    """In one burst; all of them fit at once."""
    bursts: int
    """In each way."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Send bursts in one call and in many, and see from the rows who ran what."""
    with stack.running("sim", sim=SIM, workers=WORKERS) as running:
        running.until_ready(WORKERS)
        bulk = [_in_one_call(running, sizes.jobs) for _ in range(sizes.bursts)]
        say(f"in one call: {_shown(bulk)}")
        single = [_in_many_calls(running, sizes.jobs) for _ in range(sizes.bursts)]
        say(f"in many calls: {_shown(single)}")
    figures = {
        "worst_ratio": max(bulk + single),
        "one_call_median": statistics.median(bulk),
        "many_calls_median": statistics.median(single),
    }
    return Measured(
        figures, (*_NOTES, f"{sizes.bursts} bursts of {sizes.jobs} jobs in each way; the worst counts.")
    )


_NOTES: Final = (
    f"{WORKERS} workers with 32 slots each on simulated engines, {SIM}, idle before each burst.",
    "In one call of the native API, and in as many calls at once as there are jobs.",
)


def _in_one_call(running: Stack, jobs: int) -> float:
    ids = running.submit(jobs, _body(), tier="standard")
    return _most_over_mean(running, ids)


def _in_many_calls(running: Stack, jobs: int) -> float:
    calls = [Request(at=0, prompt_tokens=16, output_tokens=OUTPUT_TOKENS, waits=False)] * jobs
    answers = all_good(send(Spec(target=running.api, requests=calls)))
    return _most_over_mean(running, [answer.job_id for answer in answers])


def _most_over_mean(running: Stack, ids: list[str]) -> float:
    running.until_empty(60)
    ours = set(ids)
    taken = Counter(job.worker for job in running.jobs() if job.id in ours)
    return max(taken.values()) * WORKERS / len(ids)


def _body() -> dict[str, object]:
    return stack.body(prompt_tokens=16, output_tokens=OUTPUT_TOKENS)


def _shown(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


ROW: Final = Row(
    id="B15",
    text=f"burst of jobs over {WORKERS} idle workers: most loaded ÷ mean",
    goals=("worst_ratio <= 1.1",),
    measure=lambda say: measure(say, Sizes(jobs=100, bursts=10)),
    rehearse=lambda say: measure(say, Sizes(jobs=40, bursts=2)),
)
