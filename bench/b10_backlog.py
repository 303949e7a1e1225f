"""B10: what a claim and a queued job cost Redis when a million jobs of a thousand tenants wait."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Final

import uuid_utils.compat

from bench import places, statistics
from bench.row import Measured, Row, Say
from inference import broker, routing
from inference.admission.terms import Asked, QueueTerms, Wanted
from inference.broker import Broker, Claimed, ClaimRequest, Credit, Entry, TierTerms
from inference.capacity import Weightier
from inference.guards import Load, Room
from inference.limits import KeyLimits, QueueCaps, TenantLimits

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
        _settle(ours)
        per_job = (_used_bytes(ours) - empty) / sizes.many
        many = _depth(ours, sizes.claims)
    return Measured(_figures(few, many, per_job), (*_NOTES, _sized(sizes)))


def _figures(few: Depth, many: Depth, per_job: float) -> dict[str, float]:
    ratios = {pull: statistics.ratio(many.claim_us[pull], few.claim_us[pull]) for pull in PULLS}
    return {
        "worst_claim_ratio": max(ratios.values()),
        "server_us_per_job": many.server_us[f"claim_{max(PULLS)}"],
        "bytes_per_job": per_job,
        **{f"claim_{pull}_ratio": ratio for pull, ratio in ratios.items()},
        **{f"claim_{pull}_us": us for pull, us in many.claim_us.items()},
        **{f"claim_{pull}_few_us": us for pull, us in few.claim_us.items()},
        **{f"server_{verb}_us_per_job": us for verb, us in many.server_us.items()},
    }


_NOTES: Final = (
    "Claims: the client's round trip, medians. Every claim is acknowledged and as many are published again.",
    "Server time of a job: of a claim of 16, by Redis' own count; beside it that of other verbs, one job a call.",
    "Bytes: Redis' used memory, everything counted, ÷ jobs. The server is not rewriting its log meanwhile.",
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


class _Server:
    """The time that the server spends in scripts, by its own count."""

    def __init__(self, ours: Broker) -> None:
        self._ours = ours
        self._spent: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def timed(self, verb: str, jobs: int) -> Iterator[None]:
        """Count what the calls within take."""
        before = self._script_us()
        yield
        self._spent[verb].append((self._script_us() - before) / jobs)

    def medians(self) -> dict[str, float]:
        """Return the median µs for a job by verb."""
        return {verb: statistics.median(spent) for verb, spent in self._spent.items()}

    def _script_us(self) -> float:
        return float(self._ours.client.info("commandstats")["cmdstat_evalsha"]["usec"])


def _depth(ours: Broker, claims: int) -> Depth:
    """Measure at the present depth, which stays."""
    _settle(ours)
    server = _Server(ours)
    claim_us = {
        pull: 1e6 * statistics.median([_once(ours, pull, server) for _ in range(claims)]) for pull in PULLS
    }
    return Depth(claim_us, server.medians())


def _settle(ours: Broker) -> None:
    """Wait until the server rewrites its log no more, as it does in another process after so many writes."""
    is_done = lambda: not ours.client.info("persistence")["aof_rewrite_in_progress"]  # noqa: E731
    places.until(is_done, seconds=300, what="the log is rewritten", poll_seconds=0.2)


def _once(ours: Broker, pull: int, server: _Server) -> float:
    """Return the seconds of a claim; its jobs are ended, and as many published anew."""
    with server.timed(f"claim_{pull}", pull):
        began = time.perf_counter()
        claimed = claim(ours, pull)
        seconds = time.perf_counter() - began
    if len(claimed) != pull:
        raise RuntimeError(f"a claim of {pull} took {len(claimed)}")
    _again(ours, claimed, server)
    return seconds


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


def _again(ours: Broker, claimed: Sequence[Claimed], server: _Server) -> None:
    with server.timed("ack", len(claimed)):
        for job in claimed:
            ours.ack(job.token, status="succeeded")
    entries = [_entry(job.queue, job.tenant, job.estimate) for job in claimed]
    with server.timed("admit", len(entries)):
        for entry in entries:
            ours.admit(_asked(entry))
    with server.timed("publish", len(entries)):
        for entry in entries:
            ours.publish([entry])


def _asked(entry: Entry) -> Asked:
    """Ask for room with every limit there is, none of them reached."""
    most, tier = 1 << 40, routing.parse(entry.queue).tier
    heavier = {name: terms.weight / TIERS[tier].weight for name, terms in TIERS.items() if name != tier}
    terms = QueueTerms(
        name=entry.queue,
        caps=QueueCaps(most, most, most),
        max_wait_ms=most,
        slots=64,
        prompt_ms=1.0,
        output_ms=1.0,
        expected_tokens=entry.expected_tokens,
        model_bytes=most,
        line=_of_tier(tier),
        before=tuple(Weightier(ratio, _of_tier(name)) for name, ratio in heavier.items() if ratio >= 1),
    )
    return Asked(
        tenant=entry.tenant,
        owner=f"key={entry.tenant}",
        key=KeyLimits(most, most, most),
        limits=TenantLimits(most, most, most, most),
        queues=[terms],
        jobs=[Wanted(entry.job_id, entry.queue, entry.prompt_tokens, entry.expected_tokens, 300)],
    )


def _of_tier(tier: str) -> tuple[str, ...]:
    return tuple(queue for queue in QUEUES if routing.parse(queue).tier == tier)


def _used_bytes(ours: Broker) -> int:
    return int(ours.client.info("memory")["used_memory"])


ROW: Final = Row(
    id="B10",
    text="claims of 1 and of 16 with 1,000,000 queued jobs ÷ with 1,000; server time a job; bytes a job",
    goals=("worst_claim_ratio <= 2", "server_us_per_job <= 100", "bytes_per_job <= 700"),
    measure=lambda say: measure(say, Sizes(many=1_000_000, tenants=1_000, claims=400)),
    rehearse=lambda say: measure(say, Sizes(many=30_000, tenants=1_000, claims=100)),
)
