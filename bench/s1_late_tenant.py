"""S1: a tenant that comes late, behind one that dumped 10,000 jobs."""

from dataclasses import dataclass
from typing import Final

from bench import open_load, stack, tenants
from bench.open_load import Request, Spec, all_good
from bench.row import Measured, Row, Say
from bench.stack import Job, Stack
from bench.tenants import Stream

SLOTS: Final = 32
SIM: Final = "--decode-tps 25 --kv-tokens 65536"
PROMPT_TOKENS: Final = 16
OUTPUT_TOKENS: Final = 25
"""A second of work: an engine takes 32 a second."""
WARM_SECONDS: Final = 5.0
DUMPER: Final = "dumper"
ALONE: Final = "alone"
ONE: Final = ("late-1",)
THREE: Final = ("late-2", "late-3", "late-4")
PHASES: Final = {"alone": (ALONE,), "one": ONE, "three": THREE}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    dump: int
    wait_seconds: float
    """From the dump until the first late job."""
    seconds: float
    """Of each phase: alone, one late tenant, three."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Let a tenant have the engine to itself, then one, then three come behind a dump."""
    jobs = _jobs(say, sizes)
    p99 = {name: tenants.queue_p99(jobs, who) for name, who in PHASES.items()}
    figures = {
        "one_over_alone_s": p99["one"] - p99["alone"],
        "three_over_alone_s": p99["three"] - p99["alone"],
        **{f"{name}_p99_s": seconds for name, seconds in p99.items()},
        "dumper_p99_s": tenants.queue_p99(jobs, [DUMPER]),
    }
    return Measured(figures, _notes(sizes))


def _jobs(say: Say, sizes: Sizes) -> list[Job]:
    with stack.running("sim", sim=SIM, model={"max_num_seqs": SLOTS}) as running:
        running.update("Tier", {"name": "standard"}, start_deadline_seconds=3600)
        known = tenants.keys(running, dict.fromkeys((DUMPER, ALONE, *ONE, *THREE), 1.0))
        _run(running, _stream(known[DUMPER], 0, WARM_SECONDS))
        say(f"one job a second for {sizes.seconds:g} s, alone")
        _run(running, _stream(known[ALONE], 0, sizes.seconds))
        _dump(running, sizes.dump, known[DUMPER])
        first, second = sizes.wait_seconds, sizes.wait_seconds + sizes.seconds
        say(f"{sizes.dump:,} jobs dumped; one tenant comes after {first:g} s, three more after {second:g} s")
        late = [*_stream(known[ONE[0]], first, second)]
        late += [r for name in THREE for r in _stream(known[name], second, second + sizes.seconds)]
        _run(running, late)
        if not running.waiting():
            raise RuntimeError("the dump ran out")
        running.until_empty(600)
        return running.jobs()


def _stream(key: str, begin: float, end: float) -> list[Request]:
    return list(tenants.regular(Stream(key, 1.0, begin, end, PROMPT_TOKENS, OUTPUT_TOKENS)))


def _run(running: Stack, requests: list[Request]) -> None:
    all_good(open_load.run(Spec(target=running.api, requests=requests)))


def _dump(running: Stack, count: int, key: str) -> None:
    body = stack.body(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)
    running.submit(count, body, tier="standard", key=key)


def _notes(sizes: Sizes) -> tuple[str, ...]:
    return (
        f"Simulated engine with {SLOTS} slots, {SIM}; every job takes a second; equal weights, one tier.",
        f"{sizes.dump:,} jobs at once; late tenants send one job a second each, for {sizes.seconds:g} s.",
        f"The first comes {sizes.wait_seconds:g} s after the dump, then three others; the dump outlasts them.",
    )


ROW: Final = Row(
    id="S1",
    text="p99 queue time of a late tenant behind a dump of 10,000 jobs, above what it has alone; of three",
    goals=("one_over_alone_s <= 1", "three_over_alone_s <= 1"),
    measure=lambda say: measure(say, Sizes(dump=10_000, wait_seconds=60, seconds=100)),
    rehearse=lambda say: measure(say, Sizes(dump=1_500, wait_seconds=5, seconds=10)),
    by_name_only=True,
)
