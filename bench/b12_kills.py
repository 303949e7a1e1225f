"""B12: how long the jobs of a killed worker stand still, and whether any is lost or done twice."""

import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from bench import places, stack, statistics
from bench.row import Measured, Row, Say
from bench.stack import Stack

WORKERS: Final = 2
SLOTS: Final = 8
TIER: Final = "standard"
RESERVED: Final = 1
"""Of each, for realtime: these jobs are of another tier."""
LEASE_SECONDS: Final = 5.0
RENEWAL_SECONDS: Final = LEASE_SECONDS / 4
"""Kills fall anywhere between two renewals."""
SIM: Final = "--decode-tps 20"
OUTPUT_TOKENS: Final = 40
"""Two seconds of work."""
TOP_UP: Final = 100
"""Jobs queued whenever fewer wait."""
SEED: Final = 12
SETTLE_SECONDS: Final = 120.0
MOST_ATTEMPTS: Final = 20
"""Of the tier: kills come so close that one of hundreds of jobs meets three of them, the default, by chance. That
it fails then is the admin's limit, and no loss."""

Steps = Mapping[str, Sequence[tuple[str, float]]]
"""Each job's history: what happened, and when."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One `kill -9`."""

    at: float
    """By the wall clock."""
    worker: str


def measure(say: Say, kills: int) -> Measured:
    """Kill one of two busy workers again and again, then read the history of every job."""
    with _running() as s:
        s.update("Tier", {"name": TIER}, max_attempts=MOST_ATTEMPTS)
        time.sleep(stack.LIMITS_SECONDS)
        ids, killed = _kill_often(s, kills, say)
        s.until_ready(WORKERS)
        s.until_empty(SETTLE_SECONDS)
        jobs, steps = s.jobs(), _steps(s)
    again = [seconds for kill in killed for seconds in _seconds_until_again(kill, steps)]
    if not again:
        raise RuntimeError("no kill met a running job")
    statuses = Counter(job.status for job in jobs)
    say(f"{len(ids)} jobs: {dict(statuses)}; {len(again)} were running when their worker was killed")
    figures = {
        "running_again_longest_s": max(again),
        "lost": len(ids) - statuses["succeeded"],
        "duplicated": sum(1 for history in steps.values() if _ends(history) > 1),
        "running_again_median_s": statistics.median(again),
        "jobs": len(ids),
        "jobs_hit": len(again),
    }
    return Measured(figures, _NOTES)


_NOTES: Final = (
    f"{WORKERS} workers with {SLOTS} slots on simulated engines, {SIM}, and always a backlog.",
    f"Lease {LEASE_SECONDS:g} s (default: 20), hence the goal; workers and moments drawn by seed {SEED}.",
    f"The tier allows {MOST_ATTEMPTS} attempts (default: 3), so that only what is lost counts as lost.",
    "Running again: from the kill until the job's next start, by its history. Lost: not succeeded at the end.",
)


def _running() -> AbstractContextManager[Stack]:
    model = {"max_num_seqs": SLOTS}
    return stack.running("sim", sim=SIM, workers=WORKERS, model=model, lease_seconds=LEASE_SECONDS)


def _kill_often(s: Stack, kills: int, say: Say) -> tuple[list[str], list[Kill]]:
    """Kill at drawn moments, always with a backlog; returns the ids of all jobs, and the kills."""
    draw = random.Random(SEED)  # noqa: S311 - repeatable on purpose
    ids: list[str] = []
    killed: list[Kill] = []
    for number in range(1, kills + 1):
        ids += _until_busy(s)
        time.sleep(draw.uniform(0, RENEWAL_SECONDS))
        killed.append(_kill(s, draw.randint(1, WORKERS)))
        say(f"kill {number} of {kills}")
    return ids, killed


def _until_busy(s: Stack) -> list[str]:
    """Wait until all workers are ready and full, with a backlog; returns the ids of the jobs added."""
    s.until_ready(WORKERS)
    body = stack.body(prompt_tokens=16, output_tokens=OUTPUT_TOKENS)
    ids = s.submit(TOP_UP, body, tier=TIER) if s.waiting() < TOP_UP else []
    full = WORKERS * (SLOTS - RESERVED)
    places.until(lambda: s.in_flight() >= full, seconds=60, what="all slots are taken", poll_seconds=0.05)
    return ids


def _kill(s: Stack, number: int) -> Kill:
    """Kill the worker of this number, and return when its process is gone."""
    access = s.access
    pid, name = access["pids"][f"worker-{number}"], access["workers"][number - 1]
    at = time.time()
    os.kill(pid, signal.SIGKILL)
    changed = lambda: s.access["pids"].get(f"worker-{number}", pid) != pid  # noqa: E731
    places.until(changed, seconds=60, what=f"{name} is started again", poll_seconds=0.05)
    return Kill(at, name)


def _steps(s: Stack) -> Steps:
    steps: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for job_id, kind, at, worker in s.rows("events"):
        steps[job_id].append((f"{kind} {worker}".strip(), at))
    return steps


def _seconds_until_again(kill: Kill, steps: Steps) -> list[float]:
    """Of each job that the worker ran when it was killed."""
    found = []
    for history in steps.values():
        before = [what for what, at in history if at <= kill.at]
        later = [at for what, at in history if at > kill.at and what.startswith("running")]
        if before and before[-1] == f"running {kill.worker}" and later:
            found.append(later[0] - kill.at)
    return found


def _ends(history: Sequence[tuple[str, float]]) -> int:
    return sum(what.startswith(("succeeded", "failed", "cancelled", "expired")) for what, _ in history)


ROW: Final = Row(
    id="B12",
    text=f"kill -9 of a worker, 20 times, lease {LEASE_SECONDS:g} s: its jobs run again after; lost; duplicated",
    goals=(f"running_again_longest_s <= {LEASE_SECONDS + 5:g}", "lost <= 0", "duplicated <= 0"),
    measure=lambda say: measure(say, 20),
    rehearse=lambda say: measure(say, 3),
)
