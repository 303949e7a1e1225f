"""S3: a long prompt among an endless stream of short ones, and short ones among long ones."""

import math
import random
import time
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
WIDE_MOST_LONG: Final = 13
"""Of 16: what an admin sets who wants short ones not to wait for long ones. One slot is the reserve's, and two are
left, since one a second of 1 s each would queue for one another in one slot, whatever the long ones do."""
BOUND_SECONDS: Final = 5.0
"""`docs/scheduling.md`: 2 s of overtaking, 1 s until a worker asks, then what runs ends: short jobs, slowed."""
RANDOM_ENDS_P99_SECONDS: Final = WIDE.seconds([WIDE_LONG]) * math.log(100)
"""Until the next of what runs ends, if ends are drawn at random: exponential, by the rate at which long ones end.
What comes when all slots are taken cannot start before."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    seconds: float
    """Of each part."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Let long ones find their place among short ones, then short ones among long ones, without and with a cap."""
    extra = _long_among_short(sizes.seconds)
    say(f"long ones waited at most {max(extra):.1f} s longer than their place in the order")
    beside = _short_among_long(sizes.seconds)
    say(f"among long ones, short ones waited {_p99(beside, 'short'):.2f} s (p99)")
    capped = _short_among_long(sizes.seconds, most_long=WIDE_MOST_LONG)
    say(f"with at most {WIDE_MOST_LONG} long ones in flight, {_p99(capped, 'short'):.2f} s (p99)")
    figures = {
        "long_extra_max_s": max(extra),
        "short_extra_p99_s": statistics.percentile(_extra(beside, "short"), 0.99),
        "short_among_capped_p99_s": _p99(capped, "short"),
        "short_among_long_p99_s": _p99(beside, "short"),
        "long_beside_short_p99_s": _p99(beside, "long"),
        "long_extra_median_s": statistics.median(extra),
        "capped_long_p99_s": _p99(capped, "long"),
        "short_extra_max_s": max(_extra(beside, "short")),
        "longs": len(extra),
    }
    return Measured(figures, _notes(sizes))


def _long_among_short(seconds: float) -> list[float]:
    """Return how much longer each long job waited than short ones around it, and than the order lets it."""
    fitting = Engine(CROWDED_KV // TOKENS_OF_SHORT, CROWDED.prefill_tps, CROWDED.decode_tps)
    shorts = _stream(SHORT, CROWDED_LOAD / fitting.seconds([SHORT]), seconds)
    longs = _stream(LONG, 1 / LONGS_EVERY_SECONDS, seconds)
    streams = [*tenants.drawn_equal(shorts, _draw()), *tenants.regular(longs)]
    return _extra(_run(CROWDED, CROWDED_KV, streams), "long")


def _extra(jobs: Sequence[Job], length: str) -> list[float]:
    """Return how long each job of a length waited once all before it in the order had started, in seconds."""
    return [max(0.0, _started(job) - _turn(job, jobs)) for job in jobs if job.length == length]


def _turn(job: Job, jobs: Sequence[Job]) -> float:
    """Return when the last of those before it in the order started: smallest arrival + estimate first."""
    place = job.created_at + job.estimate_seconds
    before = [_started(other) for other in jobs if other.created_at + other.estimate_seconds < place]
    return max([job.created_at, *before])


def _started(job: Job) -> float:
    return job.created_at + job.queue_seconds


def _short_among_long(seconds: float, *, most_long: int | None = None) -> list[Job]:
    longs = _stream(WIDE_LONG, WIDE_LOAD / WIDE.seconds([WIDE_LONG]), seconds)
    streams = [*tenants.drawn_equal(longs, _draw()), *tenants.regular(_stream(SHORT, 1.0, seconds))]
    return _run(WIDE, 131_072, streams, most_long=most_long)


def _p99(jobs: Sequence[Job], length: str) -> float:
    return statistics.percentile([job.queue_seconds for job in jobs if job.length == length], 0.99)


def _run(
    engine: Engine, kv_tokens: int, requests: Sequence[Request], *, most_long: int | None = None
) -> list[Job]:
    """Run requests; at most `most_long` long ones in flight, if that is set."""
    sim, model = engine.sim(kv_tokens=kv_tokens), {"max_num_seqs": engine.slots}
    with stack.running("sim", sim=sim, model=model) as running:
        if most_long is not None:
            running.update("LengthClass", {"name": "long"}, max_in_flight=most_long)
            time.sleep(stack.LIMITS_SECONDS)
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
        "Extra: what one waited after the last of those before it, by arrival + estimate, had started.",
        f"Among long ones ({WIDE_LONG.prompt_tokens:,} in, {WIDE_LONG.output_tokens} out): load {WIDE_LOAD}.",
        f"There {WIDE.slots} slots, and one short job a second.",
        "By the order a short one waits for long ones that came earlier by more than the difference of estimates;",
        f"its extra is the time until one of what runs ends, {WIDE.seconds([WIDE_LONG]):.2f} s on average.",
        f"A cap for the class ends that: capped, at most {WIDE_MOST_LONG} long ones are in flight.",
    )


ROW: Final = Row(
    id="S3",
    text="wait of long among short ones, and of short among long ones, once those before them began; with a cap",
    goals=(
        f"long_extra_max_s <= {BOUND_SECONDS:g}",
        f"short_extra_p99_s <= {RANDOM_ENDS_P99_SECONDS:.1f}",
        "short_among_capped_p99_s <= 1",
    ),
    measure=lambda say: measure(say, Sizes(seconds=90)),
    rehearse=lambda say: measure(say, Sizes(seconds=15)),
    by_name_only=True,
)
