"""S5: whether any process grows while a stack works off a million jobs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import psutil

from bench import stack, statistics
from bench.row import Measured, Row, Say
from bench.stack import Stack

SIM: Final = "--decode-tps 100000 --prefill-tps 100000000 --kv-tokens 65536"
PROCESSES: Final = {"web": "web", "worker-1": "worker", "control": "control_worker"}
"""Parts of the stack, and what their figures are called."""
MOST_WAITING: Final = 3 * stack.BULK
WARM_SHARE: Final = 0.3
"""Of the run: what is measured comes after it."""
SAY_SECONDS: Final = 60.0

Sample = tuple[int, Mapping[str, int]]
"""Jobs accepted so far, and each process's resident bytes."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    jobs: int
    minutes: float
    """At most: as many jobs as fit are run."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Submit in bulk as fast as jobs are worked off, and watch the processes."""
    with stack.running("sim", sim=SIM) as running:
        began = time.monotonic()
        samples = _feed(running, sizes, say)
        running.until_empty(300)
        minutes = (time.monotonic() - began) / 60
        succeeded = running.rows("count")
    accepted = samples[-1][0]
    if succeeded != accepted:
        raise RuntimeError(f"{succeeded} of {accepted} jobs succeeded")
    figures = {"jobs": accepted, "minutes": minutes, "jobs_per_second": accepted / minutes / 60}
    return Measured(figures | _memory(samples), _notes(sizes))


def _memory(samples: list[Sample]) -> dict[str, float]:
    warm = samples[round(len(samples) * WARM_SHARE) :]
    slopes = {name: _slope(warm, part) for part, name in PROCESSES.items()}
    return {
        "worst_bytes_per_job": max(slopes.values()),
        **{f"{name}_bytes_per_job": slope for name, slope in slopes.items()},
        **{f"{name}_mib": samples[-1][1][part] / 2**20 for part, name in PROCESSES.items()},
    }


def _feed(running: Stack, sizes: Sizes, say: Say) -> list[Sample]:
    body = stack.body(prompt_tokens=16, output_tokens=1)
    processes = {part: psutil.Process(running.access["pids"][part]) for part in PROCESSES}
    ends_at, said_at = time.monotonic() + 60 * sizes.minutes, time.monotonic()
    accepted, samples = 0, list[Sample]()
    while accepted < sizes.jobs and time.monotonic() < ends_at:
        if running.waiting() < MOST_WAITING:
            accepted += len(running.submit(stack.BULK, body, tier="standard"))
            samples.append((accepted, {part: p.memory_info().rss for part, p in processes.items()}))
        else:
            time.sleep(0.1)
        if time.monotonic() - said_at > SAY_SECONDS:
            said_at = time.monotonic()
            say(f"{accepted:,} jobs; MiB: { ({part: rss >> 20 for part, rss in samples[-1][1].items()}) }")
    return samples


def _slope(samples: list[Sample], part: str) -> float:
    return statistics.slope([(float(jobs), float(rss[part])) for jobs, rss in samples])


def _notes(sizes: Sizes) -> tuple[str, ...]:
    return (
        f"Bulk submissions of {stack.BULK:,} until {sizes.jobs:,} jobs or {sizes.minutes:g} minutes.",
        f"Simulated engine that takes next to no time; at most {MOST_WAITING:,} jobs wait.",
        f"Slopes of resident memory over jobs, least squares, after the first {WARM_SHARE:.0%} of the run.",
    )


ROW: Final = Row(
    id="S5",
    text="growth of web, worker and control worker over 1,000,000 jobs, or as many as fit in 30 minutes",
    goals=("worst_bytes_per_job <= 10",),
    measure=lambda say: measure(say, Sizes(jobs=1_000_000, minutes=30)),
    rehearse=lambda say: measure(say, Sizes(jobs=10_000, minutes=1)),
    by_name_only=True,
)
