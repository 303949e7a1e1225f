"""S3: a long prompt among an endless stream of short ones, and short ones among long ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import open_load, stack, statistics, tenants
from bench.open_load import Request, Spec, all_good
from bench.row import Measured, Row, Say
from bench.stack import Job
from bench.tenants import Stream
from bench.trace import Arrival, Engine

SEED: Final = 3
SHORT: Final = Arrival(0, 64, 50, "")
LONG: Final = Arrival(0, 3_000, 50, "")
LONGS_EVERY_SECONDS: Final = 5.0
CROWDED: Final = Engine(slots=64, prefill_tps=20_000, decode_tps=50)
CROWDED_KV: Final = 8_192
"""The short ones alone fill it: a long one finds no room unless room is made."""
CROWDED_LOAD: Final = 1.05
"""Of what the engine can do in that cache: the stream never lets up, and the backlog grows."""
TOKENS_OF_SHORT: Final = SHORT.prompt_tokens + SHORT.output_tokens + 16
"""As the worker counts a short one's room, with the margin."""
WIDE: Final = Engine(slots=16, prefill_tps=20_000, decode_tps=50)
WIDE_LOAD: Final = 0.9
WIDE_LONG: Final = Arrival(0, 3_000, 200, "")
BOUND_SECONDS: Final = 5.0
"""`docs/scheduling.md`: 2 s of overtaking, 1 s until a worker asks, then what runs ends: short jobs, slowed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    seconds: float
    """Of each part."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Let long ones find their place among short ones, then short ones among long ones."""
    extra = _long_among_short(sizes.seconds)
    say(f"long ones waited at most {max(extra):.1f} s longer than their place in the order")
    short, long = _short_among_long(sizes.seconds)
    say(f"among long ones, short ones waited {short:.2f} s (p99), the long ones {long:.2f} s")
    figures = {
        "long_extra_max_s": max(extra),
        "short_among_long_p99_s": short,
        "long_extra_median_s": statistics.median(extra),
        "long_beside_short_p99_s": long,
        "longs": len(extra),
    }
    return Measured(figures, _notes(sizes))


def _long_among_short(seconds: float) -> list[float]:
    """Return how much longer each long job waited than short ones around it, and than the order lets it."""
    fitting = Engine(CROWDED_KV // TOKENS_OF_SHORT, CROWDED.prefill_tps, CROWDED.decode_tps)
    shorts = _stream(SHORT, CROWDED_LOAD / fitting.seconds([SHORT]), seconds)
    longs = _stream(LONG, 1 / LONGS_EVERY_SECONDS, seconds)
    jobs = _run(CROWDED, CROWDED_KV, [*tenants.drawn_equal(shorts, _draw()), *tenants.regular(longs)])
    short = [job for job in jobs if job.length == "short"]
    return [job.queue_seconds - _in_order(job, short) for job in jobs if job.length == "long"]


def _in_order(job: Job, others: Sequence[Job]) -> float:
    """Return what others waited that came within a second of it, and the difference of the estimates."""
    near = [other for other in others if abs(other.created_at - job.created_at) < 1]
    wait = statistics.median([other.queue_seconds for other in near])
    return wait + job.estimate_seconds - statistics.median([other.estimate_seconds for other in near])


def _short_among_long(seconds: float) -> tuple[float, float]:
    """Return the p99 queue times of short and of long ones."""
    longs = _stream(WIDE_LONG, WIDE_LOAD / WIDE.seconds([WIDE_LONG]), seconds)
    shorts = _stream(SHORT, 1.0, seconds)
    jobs = _run(WIDE, 131_072, [*tenants.drawn_equal(longs, _draw()), *tenants.regular(shorts)])
    waits = {length: [j.queue_seconds for j in jobs if j.length == length] for length in ("short", "long")}
    return statistics.percentile(waits["short"], 0.99), statistics.percentile(waits["long"], 0.99)


def _run(engine: Engine, kv_tokens: int, requests: Sequence[Request]) -> list[Job]:
    with stack.running(
        "sim", sim=engine.sim(kv_tokens=kv_tokens), model={"max_num_seqs": engine.slots}
    ) as running:
        ordered = sorted(requests, key=lambda request: request.at)
        all_good(open_load.run(Spec(target=running.api, requests=ordered)))
        running.until_empty(300)
        return running.jobs()


def _stream(like: Arrival, jobs_per_second: float, seconds: float) -> Stream:
    return Stream("", jobs_per_second, 0, seconds, like.prompt_tokens, like.output_tokens)


def _draw() -> random.Random:
    return random.Random(SEED)  # noqa: S311 - repeatable on purpose


def _notes(sizes: Sizes) -> tuple[str, ...]:
    return (
        f"One tenant, one tier, {sizes.seconds:g} s each; engines of {CROWDED.decode_tps:g} tokens/s a sequence.",
        f"Crowded: {CROWDED.slots} slots, {CROWDED_KV:,} KV tokens, short ones at {CROWDED_LOAD} of what fits.",
        f"A long prompt of {LONG.prompt_tokens:,} tokens comes every {LONGS_EVERY_SECONDS:g} s.",
        "Extra: a long one's wait less that of short ones around it and the difference of estimates (the order).",
        f"Among long ones ({WIDE_LONG.prompt_tokens:,} in, {WIDE_LONG.output_tokens} out): load {WIDE_LOAD}.",
        f"There {WIDE.slots} slots, and one short job a second.",
    )


ROW: Final = Row(
    id="S3",
    text="a long prompt's wait above that of the short ones around it; a short one's wait among long ones",
    goals=(f"long_extra_max_s <= {BOUND_SECONDS:g}", "short_among_long_p99_s <= 1"),
    measure=lambda say: measure(say, Sizes(seconds=90)),
    rehearse=lambda say: measure(say, Sizes(seconds=15)),
    by_name_only=True,
)
