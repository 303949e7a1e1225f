"""B6: what our order does to the Azure conversation trace, against first come, first served."""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import open_load, replays, stack, statistics, trace
from bench.open_load import Request, Spec
from bench.row import Measured, Row, Say
from bench.trace import Arrival, Engine

LOAD: Final = 0.9
ENGINE: Final = Engine(slots=32, prefill_tps=100_000, decode_tps=200)
SIM: Final = ENGINE.sim()
SPEED: Final = 8
"""How much faster than an engine of 25 tokens/s a sequence."""
VLLM_SLOTS: Final = 4
VLLM_DIVISOR: Final = 16
"""Of lengths: a prompt of 1,200 tokens takes the CPU engine seconds."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    requests: int
    """Of the window, from its start."""
    vllm_requests: int
    """0: not on vLLM."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Replay the window in each way, one after the other, on the engine of one stack."""
    window = trace.window()[: sizes.requests]
    arrivals = trace.stretched(window, busy_seconds=ENGINE.seconds(window), load=LOAD)
    say(f"{len(arrivals)} requests in {arrivals[-1].at:.0f} s, four times")
    with stack.running("sim", sim=SIM, model={"max_num_seqs": ENGINE.slots}) as running:
        ways = {"direct": replays.direct(running, arrivals)}
        say(_said("direct", ways["direct"]))
        ways["stock"] = replays.stock(running, arrivals, slots=ENGINE.slots)
        say(_said("stock", ways["stock"]))
        ways["fifo"] = replays.fifo(running, arrivals)
        say(_said("fifo", ways["fifo"]))
        ways["ours"] = replays.ours(running, arrivals)
        say(_said("ours", ways["ours"]))
    figures = _figures(ways)
    return Measured(figures | _on_vllm(window[: sizes.vllm_requests], say), _notes(sizes, arrivals))


def _figures(ways: dict[str, replays.Replayed]) -> dict[str, float]:
    ours = ways["ours"]
    queue = {name: way.online_queue_mean() for name, way in ways.items()}
    long = {name: way.long_p99() for name, way in ways.items()}
    return {
        "queue_ratio": statistics.ratio(queue["ours"], queue["direct"]),
        "long_p99_ratio": statistics.ratio(long["ours"], long["direct"]),
        "queue_over_stock": statistics.ratio(queue["ours"], queue["stock"]),
        "queue_over_fifo": statistics.ratio(queue["ours"], queue["fifo"]),
        **{f"{name}_queue_mean_s": seconds for name, seconds in queue.items()},
        **{f"{name}_long_p99_s": seconds for name, seconds in long.items()},
        "realtime_queue_p99_s": ours.queue_p99("realtime"),
        "standard_queue_p99_s": ours.queue_p99("standard"),
        "bulk_queue_p99_s": ours.queue_p99("bulk"),
    }


def _on_vllm(window: Sequence[Arrival], say: Say) -> dict[str, float]:
    """Replay a scaled-down part on the real engine, which is reported only: it shares the cores with the stack."""
    if not window or importlib.util.find_spec("vllm") is None:
        return {}
    small = trace.shrunk(window, VLLM_DIVISOR)
    say("scaled down on vLLM, which takes a minute to load")
    with stack.running("vllm", model={"max_num_seqs": VLLM_SLOTS}) as running:
        busy = _busy_seconds(running, small)
        say(f"{len(small)} requests keep it busy for {busy:.0f} s")
        arrivals = trace.stretched(small, busy_seconds=busy, load=LOAD)
        direct, ours = replays.direct(running, arrivals), replays.ours(running, arrivals)
    return {
        "vllm_direct_queue_mean_s": direct.online_queue_mean(),
        "vllm_ours_queue_mean_s": ours.online_queue_mean(),
        "vllm_direct_long_p99_s": direct.long_p99(replays.LONG_TOKENS // VLLM_DIVISOR),
        "vllm_ours_long_p99_s": ours.long_p99(replays.LONG_TOKENS // VLLM_DIVISOR),
    }


def _busy_seconds(running: stack.Stack, work: Sequence[Arrival]) -> float:
    """Return how long the engine takes for the work if all of it is there from the start."""
    requests = [Request(at=0, prompt_tokens=a.prompt_tokens, output_tokens=a.output_tokens) for a in work]
    answers = open_load.all_good(open_load.run(Spec(target=running.engine, requests=requests)))
    return max(answer.seconds for answer in answers)


def _notes(sizes: Sizes, arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    return (
        f"First 300 s of the Azure trace: {len(arrivals)} requests in {arrivals[-1].at:.0f} s, load {LOAD}.",
        f"Simulated engine with {ENGINE.slots} slots, {SIM}: {SPEED} times one of 25 tokens/s a sequence.",
        "Tiers dealt by a seeded hash: 20 % realtime, 60 % standard, 20 % bulk; online are the first two.",
        f"No call is streamed; max_tokens is the trace's output; ours are of {replays.TENANTS} tenants.",
        "Queue time: until the engine begins; in ours the time in the engine's own queue counts too.",
        "Direct: the engine's own queue, whose mean it tells; stock: Celery, 32 threads, results in Redis.",
        "FIFO: ours with one tier, one tenant and equal estimates. Long: prompts above 2,048 tokens, online.",
        f"vLLM: the first {sizes.vllm_requests}, lengths ÷ {VLLM_DIVISOR}, {VLLM_SLOTS} slots; on shared cores.",
    )


def _said(name: str, way: replays.Replayed) -> str:
    return f"{name}: online wait {way.online_queue_mean():.2f} s on average, long p99 {way.long_p99():.1f} s"


ROW: Final = Row(
    id="B6",
    text="Azure trace at 0.9 load: mean queue time of online requests ÷ FCFS; p99 latency of long ones ÷ FCFS",
    goals=("queue_ratio <= 0.45", "long_p99_ratio <= 1.05"),
    measure=lambda say: measure(say, Sizes(requests=2_000, vllm_requests=80)),
    rehearse=lambda say: measure(say, Sizes(requests=200, vllm_requests=0)),
)
