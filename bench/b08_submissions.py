"""B8: submissions/s of one web process that checks all there is to check, against a view that checks nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from bench import posts, stack, statistics, web
from bench.load import Target
from bench.posts import Spec
from bench.row import Measured, Row, Say
from bench.web import Web

AT_ONCE: Final = 32
THREADS: Final = 8
"""Of the bare application, as of ours."""
PROMPT_TOKENS: Final = 64
OUTPUT_TOKENS: Final = 64
TIER: Final = "bulk"
"""Its jobs may wait for long, so that no worker is needed."""
UNREACHED: Final = 1_000_000_000
"""Of a limit that is looked at each time."""
LIMITS: Final[Mapping[str, tuple[str, ...]]] = {
    "ApiKey": ("requests_per_second", "requests_per_minute", "tokens_per_minute"),
    "Tenant": ("requests_per_minute", "tokens_per_minute", "max_queued_jobs", "max_unfinished_jobs"),
    "Tier": ("max_queued_jobs", "max_queued_tokens", "max_queued_bytes"),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    requests: int
    """In each round, of each kind."""
    rounds: int


@dataclass(frozen=True, slots=True)
class Way:
    """One way to submit."""

    target: Target
    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def rate(self, requests: int) -> float:
        """Return the submissions/s. Raises RuntimeError if one fails."""
        told = Spec(
            targets=[self.target],
            path=self.path,
            bodies=[self.body],
            requests=requests,
            at_once=AT_ONCE,
            headers=self.headers,
        )
        return posts.run(told).rate()


def measure(say: Say, sizes: Sizes) -> Measured:
    """Submit in three ways in turn: to the bare view, to `/api/v1/jobs/`, and to `/v1/` without waiting."""
    with web.bare(THREADS) as bare, web.ours(1) as ours:
        ways = _ways(bare, ours)
        for way in ways.values():
            way.rate(sizes.requests // 4)  # warm: connections, caches, code
        rounds = [_round(ways, sizes, say) for _ in range(sizes.rounds)]
    rates = {name: statistics.median([each[name] for each in rounds]) for name in ways}
    return Measured(_figures(rates), _notes(sizes))


def _round(ways: Mapping[str, Way], sizes: Sizes, say: Say) -> dict[str, float]:
    rates = {name: way.rate(sizes.requests) for name, way in ways.items()}
    say(", ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items()))
    return rates


def _figures(rates: Mapping[str, float]) -> dict[str, float]:
    ratios = {name: statistics.ratio(rates[name], rates["bare"]) for name in ("jobs", "v1")}
    return {
        "ratio": min(ratios.values()),
        **{f"{name}_ratio": ratio for name, ratio in ratios.items()},
        **{f"{name}_per_second": rate for name, rate in rates.items()},
    }


def _ways(bare: Target, ours: Web) -> dict[str, Way]:
    [target] = ours.targets(_limited_key(ours))
    body = stack.body(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)
    detached = {"Prefer": "respond-async"}
    return {
        "bare": Way(bare, "/jobs/", body),
        "jobs": Way(target, "/api/v1/jobs/", {"body": body, "tier": TIER}),
        "v1": Way(target, "/v1/chat/completions", {**body, "service_tier": "flex"}, detached),
    }


def _limited_key(ours: Web) -> str:
    """Return a key under every limit there is, none of which is ever reached."""
    key = ours.key("bench")
    for table, names in LIMITS.items():
        where = {"name": TIER} if table == "Tier" else {"name": "bench"}
        ours.update(table, where, **dict.fromkeys(names, UNREACHED))
    return key


def _notes(sizes: Sizes) -> tuple[str, ...]:
    return (
        f"{sizes.requests:,} submissions of {PROMPT_TOKENS} tokens, {sizes.rounds} rounds each, in turn; medians.",
        f"{AT_ONCE} at once, of one client process. The ratio is that of the slower of our two ways.",
        "Ours: one uvicorn process; every limit of key, tenant and queue checked; row, history and entry written.",
        "jobs: POST /api/v1/jobs/; v1: POST /v1/chat/completions with respond-async.",
        f"Bare: a DRF view that checks three fields, inserts a row, calls delay(); gunicorn, {THREADS} threads.",
        "Both: a Valkey of their own, synced every second, databases set up alike; no workers.",
    )


ROW: Final = Row(
    id="B8",
    text="submissions/s on one web process, all limits checked ÷ a bare DRF view that inserts and calls delay()",
    goals=("ratio >= 1",),
    measure=lambda say: measure(say, Sizes(requests=2_000, rounds=3)),
    rehearse=lambda say: measure(say, Sizes(requests=200, rounds=1)),
)
