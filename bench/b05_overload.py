"""B5: what share of online requests still starts in time when a third more comes than the engine can take."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bench import replays, stack, trace
from bench.row import Measured, Row, Say
from bench.stack import Stack
from bench.trace import Arrival, Engine

LOAD: Final = 1.3
ENGINE: Final = Engine(slots=64, prefill_tps=50_000, decode_tps=100)
SIM: Final = ENGINE.sim(kv_tokens=262_144)
TARGETS: Final[Mapping[str, float]] = {"realtime": 1.0, "standard": 5.0}
"""Ten times each online tier's target wait, in seconds."""
MODEL: Final[Mapping[str, Any]] = {
    "max_num_seqs": ENGINE.slots,
    "prefill_tokens_per_second": ENGINE.prefill_tps,
    "decode_tokens_per_second": ENGINE.decode_tps,
}
"""As somebody sets it who knows the engine."""


def measure(say: Say, requests: int) -> Measured:
    """Replay the window straight into the engine, then by us: as seeded, and with a max wait of online tiers."""
    window = trace.window()[:requests]
    arrivals = trace.stretched(window, busy_seconds=ENGINE.seconds(window), load=LOAD)
    say(f"{len(arrivals)} requests in {arrivals[-1].at:.0f} s, three times")
    with stack.running("sim", sim=SIM, model=MODEL) as running:
        direct = replays.direct_shares(running, arrivals, list(TARGETS.values()))
        say(f"direct: {_online(arrivals, direct):.2f} of the online requests begin in time")
        seeded = replays.offered(running, arrivals)
        say(f"ours, no max wait: {seeded.share_within(TARGETS):.2f} of them, {seeded.refused} of all refused")
    with _bounded() as running:
        ours = replays.offered(running, arrivals)
        say(f"ours: {ours.share_within(TARGETS):.2f} of them, {ours.refused} of all refused")
    return Measured(_figures(arrivals, ours, seeded, direct), _notes(arrivals))


@contextmanager
def _bounded() -> Iterator[Stack]:
    """Give a stack whose online tiers take no job that would wait beyond its target."""
    with stack.running("sim", sim=SIM, model=MODEL) as running:
        for tier, seconds in TARGETS.items():
            running.update("Tier", {"name": tier}, max_wait_seconds=seconds)
        time.sleep(stack.LIMITS_SECONDS)
        yield running


def _figures(
    arrivals: Sequence[Arrival], ours: replays.Offered, seeded: replays.Offered, direct: Mapping[float, float]
) -> dict[str, float]:
    return {
        "share_in_time": ours.share_within(TARGETS),
        "direct_share_in_time": _online(arrivals, direct),
        "no_max_wait_share_in_time": seeded.share_within(TARGETS),
        **{f"{tier}_share_in_time": ours.share_within({tier: TARGETS[tier]}) for tier in TARGETS},
        "refused_share": ours.refused / len(arrivals),
        "bulk_share_begun": ours.share_within({"bulk": float("inf")}),
    }


def _online(arrivals: Sequence[Arrival], shares: Mapping[float, float]) -> float:
    """Return the share of online requests in time where all tiers wait alike."""
    online = [arrival.tier for arrival in arrivals if arrival.tier in TARGETS]
    return sum(shares[TARGETS[tier]] for tier in online) / len(online)


def _notes(arrivals: Sequence[Arrival]) -> tuple[str, ...]:
    return (
        f"First 300 s of the Azure trace: {len(arrivals)} requests in {arrivals[-1].at:.0f} s, load {LOAD}.",
        f"Simulated engine with {ENGINE.slots} slots, {SIM}; its rates are set in the model's row.",
        "Tiers dealt by a seeded hash: 20 % realtime, 60 % standard, 20 % bulk; online are the first two.",
        "In time: begun within ten times the tier's target wait, 1 s and 5 s, of all that were offered.",
        f"Ours: {replays.TENANTS} tenants, these as max wait of online tiers; what is refused is not asked again.",
        "No max wait: limits as seeded, by which online tiers take whatever comes.",
        "Direct: first come, first served, in the engine's own queue, by its own histogram of waits.",
        "No call is streamed; max_tokens is the trace's output.",
    )


ROW: Final = Row(
    id="B5",
    text="Azure trace at 1.3 times capacity, admission on: share of offered online requests that begin in time",
    goals=("share_in_time >= 0.85",),
    measure=lambda say: measure(say, 2_000),
    rehearse=lambda say: measure(say, 200),
)
