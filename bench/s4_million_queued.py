"""S4: whether claims, submissions and the list of queues stay as fast with a million queued jobs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import httpx

from bench import b10_backlog, stack, statistics
from bench.row import Measured, Row, Say
from bench.stack import MODEL, Stack
from inference import broker
from inference.broker import Broker

FEW: Final = 1_000
ASKED: Final = ("claim", "submit", "queues")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    many: int
    tenants: int
    rounds: int
    """Questions of each kind, at each depth."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Ask a stack without workers with few jobs queued, then with many: rows and entries both."""
    with stack.running("sim", workers=0) as running:
        _lift_caps(running, sizes.many)
        running.rows("queue", str(FEW), "1")
        few = _medians(running, sizes.rounds)
        say(f"with {FEW:,}: {_shown(few)}; now {sizes.many:,} rows are written and published")
        running.rows("queue", str(sizes.many - FEW), str(sizes.tenants))
        many = _medians(running, sizes.rounds)
        say(f"with {sizes.many:,}: {_shown(many)}")
    ratios = {f"{name}_ratio": statistics.ratio(many[name], few[name]) for name in ASKED}
    figures = {
        "worst_ratio": max(ratios.values()),
        **ratios,
        **{f"{name}_ms": many[name] for name in ASKED},
        **{f"{name}_few_ms": few[name] for name in ASKED},
    }
    return Measured(figures, (_sized(sizes), *_NOTES))


_NOTES: Final = (
    "Medians: a claim of 1 by the broker's own client, one job submitted, and GET /api/v1/queues/, one at a time.",
    "No workers; web, maintenance and reconciler run as always, over all the rows.",
)


def _sized(sizes: Sizes) -> str:
    return f"{sizes.many:,} queued jobs of {sizes.tenants:,} tenants ÷ {FEW:,} of one; {sizes.rounds} of each."


def _medians(running: Stack, rounds: int) -> dict[str, float]:
    """Return the median of each question, in ms."""
    body = stack.body(prompt_tokens=64, output_tokens=64)
    client = broker.connect(running.access["redis_url"])
    ours = Broker(client, prefix=b10_backlog.PREFIX)
    try:
        with running.client() as web:
            return {
                "claim": _median_ms(lambda: _claim_and_release(ours), rounds),
                "submit": _median_ms(lambda: _post(web, body), rounds),
                "queues": _median_ms(lambda: _get(web), rounds),
            }
    finally:
        client.close()


def _median_ms(ask: Callable[[], float], rounds: int) -> float:
    return 1000 * statistics.median([ask() for _ in range(rounds)])


def _claim_and_release(ours: Broker) -> float:
    """Return the seconds of the claim alone; the job goes back."""
    began = time.perf_counter()
    [claimed] = b10_backlog.claim(ours, 1)
    seconds = time.perf_counter() - began
    ours.release(claimed.token, event=False)
    return seconds


def _post(web: httpx.Client, body: dict[str, object]) -> float:
    began = time.perf_counter()
    web.post("/api/v1/jobs/", json={"body": body, "tier": "standard"}).raise_for_status()
    return time.perf_counter() - began


def _get(web: httpx.Client) -> float:
    began = time.perf_counter()
    web.get("/api/v1/queues/").raise_for_status()
    return time.perf_counter() - began


def _lift_caps(running: Stack, jobs: int) -> None:
    running.rows("cap", f"{MODEL}.standard.short", str(2 * jobs))
    time.sleep(stack.LIMITS_SECONDS)


def _shown(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {ms:.2f} ms" for name, ms in found.items())


ROW: Final = Row(
    id="S4",
    text="claim, submission and /api/v1/queues/ with 1,000,000 jobs queued ÷ with 1,000",
    goals=("worst_ratio <= 1.5",),
    measure=lambda say: measure(say, Sizes(many=1_000_000, tenants=1_000, rounds=300)),
    rehearse=lambda say: measure(say, Sizes(many=20_000, tenants=1_000, rounds=50)),
    by_name_only=True,
)
