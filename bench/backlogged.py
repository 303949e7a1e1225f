"""Realtime calls beside a full queue of bulk work: what B3 and B4 are read from, measured once for both."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from bench import load, open_load, stack, statistics
from bench.open_load import Answer, Background, Request, Spec, all_good
from bench.row import Say
from bench.stack import Job, Stack

SLOTS: Final = 64
"""By default 3 are kept for realtime, and bulk holds 57 at most while online work comes."""
SIM: Final = "--decode-tps 25 --kv-tokens 65536"
"""An engine at a real one's pace: a step takes 40 ms."""
REALTIME_PROMPT_TOKENS: Final = 24
REALTIME_OUTPUT_TOKENS: Final = 12
"""Half a second of work."""
BULK_PROMPT_TOKENS: Final = 64
BULK_MOST_TOKENS: Final = 256
"""Asked for by all, as a batch does; the simulated engine ends an answer by its prompt, after 16 to 256 tokens.
Were the lengths told, the shortest would run first: jobs of one length, which begin and end in the same steps."""
BULK_PROMPTS: Final = 97
"""Different ones, in turn."""
CALLS_PER_SECOND: Final = 4.0
"""Two slots of 64 on average: as much as the default reserve is made for."""
WARM_SECONDS: Final = 10.0
WARM_CALLS: Final = 8
"""By which a web process has read its tokenizer, as it has where bulk was submitted."""
SEED: Final = 3
_MODEL: Final[Mapping[str, Any]] = {"max_num_seqs": SLOTS}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    seconds: float
    """Of realtime calls."""
    backlog: int
    """Bulk jobs queued before."""
    saturating_jobs: int
    """By which the engine's capacity is measured."""


FULL: Final = Sizes(seconds=75, backlog=10_000, saturating_jobs=320)
SMALL: Final = Sizes(seconds=10, backlog=1_000, saturating_jobs=64)


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured."""

    ours: list[Answer]
    queue_seconds: list[float]
    """Of the realtime jobs."""
    bulk_in_flight: float
    """Mean over the window."""
    bulk_tokens_per_second: float
    realtime_tokens_per_second: float
    direct: list[Answer]
    """The same calls straight into the engine, with as many bulk calls in flight as we had."""
    capacity_tokens_per_second: float
    """Of the engine, saturated with the same bulk calls."""
    alone: list[Answer]
    """The same calls through the stack, no bulk, on a worker of their own."""


_known: dict[Sizes, Found] = {}


def found(sizes: Sizes, say: Say) -> Found:
    """Return what this process measured before, or measure it."""
    if sizes not in _known:
        _known[sizes] = _measure(sizes, say)
    return _known[sizes]


def _measure(sizes: Sizes, say: Say) -> Found:
    """Measure ours, then a worker that serves nothing else, then its engine at the same work."""
    calls = _calls(sizes.seconds)
    say(f"{sizes.backlog:,} bulk jobs are queued, then {len(calls)} realtime calls in {sizes.seconds:g} s")
    ours, jobs = _ours(calls, sizes.backlog)
    began = ours[0].sent_at - calls[0].at
    window = (began, began + sizes.seconds)
    in_flight = _in_flight(jobs, window)
    say(f"{in_flight:.1f} bulk jobs were in flight; now without bulk, on a worker of their own")
    with stack.running("sim", workers=0, model=_MODEL) as other, stack.worker(other, "*.realtime.*", sim=SIM):
        open_load.run(Spec(target=other.api, requests=calls[:WARM_CALLS]))
        alone = all_good(open_load.run(Spec(target=other.api, requests=calls)))
        say("straight into the engine, beside as many bulk calls; then its capacity")
        direct = _direct(other, calls, round(in_flight))
        capacity = _capacity(other, sizes.saturating_jobs, output_tokens=_mean_tokens(jobs, "bulk", window))
    return Found(
        ours=ours,
        queue_seconds=[job.queue_seconds for job in jobs if job.tier == "realtime"],
        bulk_in_flight=in_flight,
        bulk_tokens_per_second=_tokens(jobs, "bulk", window) / sizes.seconds,
        realtime_tokens_per_second=_tokens(jobs, "realtime", window) / sizes.seconds,
        direct=direct,
        capacity_tokens_per_second=capacity,
        alone=alone,
    )


def notes(sizes: Sizes) -> tuple[str, ...]:
    """Return what a reader must know."""
    return (
        f"Simulated engine with {SLOTS} slots, {SIM}: a step takes 40 ms.",
        f"{sizes.backlog:,} bulk jobs queued before: {BULK_PROMPT_TOKENS} tokens in, 16 to 256 out by chance.",
        f"{CALLS_PER_SECOND:g} realtime streams/s of half a second for {sizes.seconds:g} s: 3 % of the engine.",
        "Direct: the same calls to the engine's socket, as many of the same bulk calls under way as ours had.",
        "Alone: the same calls through the stack without bulk, on a worker with `--serve '*.realtime.*'`.",
    )


def first_p99(answers: Sequence[Answer]) -> float:
    """Return the p99 of the time to the first token, in seconds."""
    return statistics.percentile([answer.first_seconds for answer in answers], 0.99)


def _calls(seconds: float) -> list[Request]:
    """Draw realtime calls that come whenever they come, the same in every run."""
    call = Request(
        at=0,
        prompt_tokens=REALTIME_PROMPT_TOKENS,
        output_tokens=REALTIME_OUTPUT_TOKENS,
        service_tier="priority",
        stream=True,
    )
    draw, at, calls = random.Random(SEED), 0.0, []  # noqa: S311 - repeatable on purpose
    while (at := at + draw.expovariate(CALLS_PER_SECOND)) < seconds:
        calls.append(replace(call, at=at))
    return calls


def _ours(calls: list[Request], backlog: int) -> tuple[list[Answer], list[Job]]:
    with stack.running("sim", sim=SIM, model=_MODEL) as running:
        running.submit(backlog, *bulk(), tier="bulk")
        told = Spec(target=running.api, requests=calls, warm_seconds=WARM_SECONDS)
        answers = all_good(open_load.run(told))
        if not running.waiting():
            raise RuntimeError("the bulk backlog ran out")
        return answers, running.jobs()


def _direct(running: Stack, calls: list[Request], at_once: int) -> list[Answer]:
    untold = [replace(call, service_tier="") for call in calls]
    beside = Background(at_once, bulk())
    told = Spec(target=running.engine, requests=untold, background=beside, warm_seconds=WARM_SECONDS)
    return all_good(open_load.run(told))


def bulk() -> list[dict[str, Any]]:
    """Return the bodies of the bulk jobs."""
    return [_bulk_body(f"{number:04d} " + "the " * (BULK_PROMPT_TOKENS - 4)) for number in range(BULK_PROMPTS)]


def _bulk_body(prompt: str) -> dict[str, Any]:
    asked = [{"role": "user", "content": prompt}]
    return stack.body(prompt_tokens=0, output_tokens=BULK_MOST_TOKENS, messages=asked, ignore_eos=False)


def _capacity(running: Stack, jobs: int, *, output_tokens: int) -> float:
    """Return the engine's tokens/s with twice as many calls of one length under way as it has slots.

    Of one length, so that its slots are full until the end.
    """
    body = stack.body(prompt_tokens=BULK_PROMPT_TOKENS, output_tokens=output_tokens)
    told = load.Spec(targets=[running.engine], requests=jobs, at_once=2 * SLOTS, body=body, streamed_share=0)
    seconds, [answers] = load.run(told)
    return sum(answer.tokens for answer in answers) / seconds


def _in_flight(jobs: Sequence[Job], window: tuple[float, float]) -> float:
    """Return the mean number of bulk jobs that ran."""
    began, ended = window
    spans = [(j.started_at, j.finished_at or ended) for j in jobs if j.tier == "bulk" and j.started_at]
    return sum(max(0.0, min(end, ended) - max(start, began)) for start, end in spans) / (ended - began)


def _mean_tokens(jobs: Sequence[Job], tier: str, window: tuple[float, float]) -> int:
    """Return the mean output of the tier's jobs that ended in the window."""
    return round(statistics.mean([job.output_tokens or 0 for job in _ended(jobs, tier, window)]))


def _tokens(jobs: Sequence[Job], tier: str, window: tuple[float, float]) -> int:
    """Return the output tokens of the tier's jobs that ended in the window."""
    return sum(job.output_tokens or 0 for job in _ended(jobs, tier, window))


def _ended(jobs: Sequence[Job], tier: str, window: tuple[float, float]) -> list[Job]:
    return [j for j in jobs if j.tier == tier and j.finished_at and window[0] <= j.finished_at < window[1]]
