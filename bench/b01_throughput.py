"""B1: what the stack costs an engine that is never idle."""

import importlib.util
from typing import Final

from bench import load, stack, statistics
from bench.row import Measured, Row, Say
from bench.stack import Stack

JOBS: Final = 1_000
ROUNDS: Final = 2
AT_ONCE: Final = 64
"""Twice the engine's slots: it always has the next one at hand, in its own queue or in ours."""
TOKENS: Final = 64
SIM: Final = "--decode-tps 50 --kv-tokens 65536"
NO_RESERVE: Final = {"reserve_share": 0}
CEILING_SIM: Final = "--decode-tps 100000 --prefill-tps 100000000 --kv-tokens 65536"
CEILING_JOBS: Final = 500
VLLM_JOBS: Final = 96


def measure(say: Say) -> Measured:
    """Saturate the engine directly and through the stack, in turn."""
    with stack.running("sim", sim=SIM, model=NO_RESERVE) as running:
        direct, ours = _compare(running, JOBS // ROUNDS, ROUNDS, say)
    figures = {
        "ratio": statistics.ratio(ours, direct),
        "ours_tokens_per_second": ours,
        "direct_tokens_per_second": direct,
        "with_reserve_tokens_per_second": _with_reserve(say),
    }
    with stack.running("sim", sim=CEILING_SIM) as running:
        ceiling = _rate(running.api, CEILING_JOBS)
        say(f"with an engine that costs next to nothing: {ceiling:.0f} tokens/s")
    figures |= {"ceiling_tokens_per_second": ceiling, "ceiling_jobs_per_second": ceiling / TOKENS}
    return Measured(figures | _on_vllm(say), _NOTES)


def _with_reserve(say: Say) -> float:
    with stack.running("sim", sim=SIM) as running:
        _rate(running.api, AT_ONCE)
        reserved = _rate(running.api, JOBS // ROUNDS)
    say(f"with the default reserve, which keeps a slot free for realtime: {reserved:.0f} tokens/s")
    return reserved


_NOTES: Final = (
    f"{JOBS:,} jobs each in {ROUNDS} rounds in turn, half of them streamed, {TOKENS} tokens in and out.",
    f"{AT_ONCE} at once, all standard; the simulated engine has 32 slots, {SIM}.",
    "Without a reserve, since what it keeps free on purpose is no cost of the stack; with it, for comparison.",
    f"Ceiling: {CEILING_JOBS} such jobs on a simulated engine that takes next to no time; all on this machine.",
    f"On vLLM, where it is installed: {VLLM_JOBS} jobs each; engine, stack and client share the cores.",
)


def _on_vllm(say: Say) -> dict[str, float]:
    """Measure on the real engine, which is reported only: it competes with the stack for the same cores."""
    if importlib.util.find_spec("vllm") is None:
        return {}
    say("the same on vLLM, which takes a minute to load")
    with stack.running("vllm") as running:
        direct, ours = _compare(running, VLLM_JOBS, 1, say)
    return {"vllm_ratio": statistics.ratio(ours, direct), "vllm_direct_tokens_per_second": direct}


def _compare(running: Stack, jobs: int, rounds: int, say: Say) -> tuple[float, float]:
    """Return tokens/s of all rounds together: direct, ours."""
    _rate(running.engine, AT_ONCE)
    _rate(running.api, AT_ONCE)
    direct, ours = [], []
    for number in range(1, rounds + 1):
        direct.append(_rate(running.engine, jobs))
        ours.append(_rate(running.api, jobs))
        say(f"round {number} of {rounds}: direct {direct[-1]:.0f} tokens/s, ours {ours[-1]:.0f}")
    return _mean_rate(direct), _mean_rate(ours)


def _mean_rate(rates: list[float]) -> float:
    """Return the rate of rounds of equal work."""
    return len(rates) / sum(1 / rate for rate in rates)


def _rate(target: load.Target, jobs: int) -> float:
    body = stack.body(prompt_tokens=TOKENS, output_tokens=TOKENS)
    seconds, [answers] = load.run(load.Spec(targets=[target], requests=jobs, at_once=AT_ONCE, body=body))
    return sum(answer.tokens for answer in answers) / seconds


ROW: Final = Row(
    id="B1",
    text="tokens/s through the whole stack ÷ the same engine driven directly, saturated",
    goals=("ratio >= 0.97",),
    measure=measure,
)
