"""B10: what a claim and a queued job cost Redis when a million jobs of a thousand tenants wait."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

import uuid_utils.compat

from bench import places, statistics
from bench.row import Measured, Row, Say
from inference import broker
from inference.broker import Broker, Claimed, ClaimRequest, Credit, Entry, TierTerms
from inference.guards import Load, Room

TIERS: Final = {
    "realtime": TierTerms(400.0, uses_reserve=True),
    "standard": TierTerms(100.0),
    "bulk": TierTerms(1.0, share=Room(64, 10**9)),
}
QUEUES: Final = tuple(
    f"smollm2-135m-instruct.{t}.{length}" for t in TIERS for length in ("short", "medium", "long")
)
FEW: Final = 1_000
PULLS: Final = (1, 16)
CHUNK: Final = 10_000
PREFIX: Final = "{sluice}:"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of it."""

    many: int
    tenants: int
    claims: int
    """Of each pull, at each depth."""


@dataclass(frozen=True, slots=True)
class Depth:
    """What was measured with so many jobs queued."""

    claim_us: dict[int, float]
    """By pull: the median round trip."""
    server_us: dict[str, float]
    """By verb: the server's time for a job."""


def measure(say: Say, sizes: Sizes) -> Measured:
    """Measure with few jobs of one tenant, then fill the same server up and measure again."""
    with _broker() as ours:
        empty = _used_bytes(ours)
        _fill(ours, FEW, 1, say)
        few = _depth(ours, sizes.claims)
        _fill(ours, sizes.many - FEW, sizes.tenants, say)
        per_job = (_used_bytes(ours) - empty) / sizes.many
        many = _depth(ours, sizes.claims)
    return Measured(_figures(few, many, per_job), (*_NOTES, _sized(sizes)))


def _figures(few: Depth, many: Depth, per_job: float) -> dict[str, float]:
    ratios = {f"claim_{n}_ratio": statistics.ratio(many.claim_us[n], few.claim_us[n]) for n in PULLS}
    times = {f"claim_{n}_us": many.claim_us[n] for n in PULLS} | {
        f"claim_{n}_few_us": few.claim_us[n] for n in PULLS
    }
    servers = {f"server_{verb}_us_per_job": us for verb, us in many.server_us.items()}
    return {
        "worst_claim_ratio": max(ratios.values()),
        "server_us_per_job": sum(many.server_us[verb] for verb in ("admit", "publish", "claim_1", "ack")),
        "bytes_per_job": per_job,
        **ratios,
        **times,
        **servers,
    }


_NOTES: Final = (
    "Claims: the client's round trip, medians. Every claim is acknowledged and as many are published again.",
    "Server time of a job: of a claim of 16, by Redis' own count; beside it that of other verbs, one job a call.",
    "Bytes: Redis' used memory, everything counted, ÷ jobs.",
)


def _sized(sizes: Sizes) -> str:
    depths = f"{sizes.many:,} jobs of {sizes.tenants:,} tenants in {len(QUEUES)} queues, and {FEW:,} of one"
    return f"{depths}, published with the real script a hundred at a time; {sizes.claims} claims each."


@contextmanager
def _broker() -> Iterator[Broker]:
    with places.folder() as where, places.redis_server(where) as url:
        client = broker.connect(url)
        try:
            yield Broker(client, prefix=PREFIX)
        finally:
            client.close()


def _fill(ours: Broker, jobs: int, tenants: int, say: Say) -> None:
    entries, done, said = _entries(jobs, tenants), 0, time.monotonic()
    while chunk := list(islice(entries, CHUNK)):
        ours.publish(chunk)
        done += len(chunk)
        if time.monotonic() - said > 10:
            said = time.monotonic()
            say(f"{done:,} of {jobs:,} published")


def _entries(jobs: int, tenants: int) -> Iterator[Entry]:
    for number in range(jobs):
        tenant = f"tenant-{number // len(QUEUES) % tenants}"
        yield _entry(QUEUES[number % len(QUEUES)], tenant, 10.0 + number % 7 / 7)


def _entry(queue: str, tenant: str, estimate: float) -> Entry:
    return Entry(
        job_id=uuid_utils.compat.uuid7(),
        queue=queue,
        tenant=tenant,
        prompt_tokens=1000,
        expected_tokens=200,
        estimate=estimate,
        mailbox="web-0123456789",
        streamed=True,
    )


def _depth(ours: Broker, claims: int) -> Depth:
    """Measure at the present depth, which stays."""
    server: dict[str, float] = {}
    return Depth({pull: _claims(ours, pull, claims, server) for pull in PULLS}, server)


def _claims(ours: Broker, pull: int, claims: int, server: dict[str, float]) -> float:
    """Return the median round trip in µs; each claim's jobs are ended and published anew before the next."""
    seconds, claiming = [], 0.0
    for _ in range(claims):
        before, began = _script_us(ours), time.perf_counter()
        claimed = claim(ours, pull)
        seconds.append(time.perf_counter() - began)
        claiming += _script_us(ours) - before
        if len(claimed) != pull:
            raise RuntimeError(f"a claim of {pull} took {len(claimed)}")
        _again(ours, claimed, server, weight=1 / claims)
    server[f"claim_{pull}"] = claiming / claims / pull
    return 1e6 * statistics.median(seconds)


def claim(ours: Broker, pull: int) -> list[Claimed]:
    """Claim so many jobs of all queues, on a worker's usual terms."""
    return ours.claim(
        ClaimRequest(
            QUEUES,
            credit=Credit(sequences=64, kv_tokens=10**9, reserve=Room(2, 10_000)),
            limit=pull,
            worker="worker-1",
            lease_seconds=60,
            tiers=TIERS,
            load=Load(in_flight=0, slots=64),
        )
    ).jobs


def _again(ours: Broker, claimed: Sequence[Claimed], server: dict[str, float], *, weight: float) -> None:
    """End the jobs, and admit and publish as many new ones."""
    entries = [_like(job) for job in claimed]
    steps: dict[str, Callable[[int], object]] = {
        "ack": lambda i: ours.ack(claimed[i].token, status="succeeded"),
        "admit": lambda i: ours.admit(entries[i].queue, [entries[i].job_id], cap=1 << 30),
        "publish": lambda i: ours.publish([entries[i]]),
    }
    for verb, step in steps.items():
        before = _script_us(ours)
        for number in range(len(claimed)):
            step(number)
        spent = (_script_us(ours) - before) / len(claimed)
        server[verb] = server.get(verb, 0.0) + weight * spent / len(PULLS)


def _like(job: Claimed) -> Entry:
    return _entry(job.queue, job.tenant, job.estimate)


def _script_us(ours: Broker) -> float:
    """Time that the server spent in scripts so far."""
    return float(ours.client.info("commandstats")["cmdstat_evalsha"]["usec"])


def _used_bytes(ours: Broker) -> int:
    return int(ours.client.info("memory")["used_memory"])


ROW: Final = Row(
    id="B10",
    text="claims of 1 and of 16 with 1,000,000 queued jobs ÷ with 1,000; server time a job; bytes a job",
    goals=("worst_claim_ratio <= 2", "server_us_per_job <= 100", "bytes_per_job <= 700"),
    measure=lambda say: measure(say, Sizes(many=1_000_000, tenants=1_000, claims=400)),
    rehearse=lambda say: measure(say, Sizes(many=30_000, tenants=1_000, claims=100)),
)
