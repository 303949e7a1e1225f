"""The same arrivals in four ways over one engine: straight into it, by stock Celery, and by us in two orders."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import gauges, open_load, places, stack, statistics
from bench.open_load import Answer, Request, Spec, all_good
from bench.stack import Stack
from bench.trace import SERVICE_TIERS, Arrival

TENANTS: Final = 8
LONG_TOKENS: Final = 2_048
"""Of a prompt: a longer one is in the length class `long`."""
TOO_MANY: Final = 429
"""The status of what admission refuses."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of the arrivals in one way, in their order."""

    arrivals: Sequence[Arrival]
    queue_seconds: Sequence[float]
    """Until the engine began each; the mean of all for each, where only that is known."""
    seconds: Sequence[float]
    """Until each was answered."""

    def online_queue_mean(self) -> float:
        """Return the mean queue time of realtime and standard requests."""
        return statistics.mean(
            [s for a, s in zip(self.arrivals, self.queue_seconds, strict=True) if _is_online(a)]
        )

    def queue_p99(self, tier: str) -> float:
        """Return the p99 queue time of a tier's requests."""
        pairs = zip(self.arrivals, self.queue_seconds, strict=True)
        return statistics.percentile([seconds for a, seconds in pairs if a.tier == tier], 0.99)

    def long_p99(self, above: int = LONG_TOKENS) -> float:
        """Return the p99 latency of online requests whose prompts are long."""
        pairs = zip(self.arrivals, self.seconds, strict=True)
        long = [seconds for a, seconds in pairs if _is_online(a) and a.prompt_tokens > above]
        return statistics.percentile(long, 0.99)


@dataclass(frozen=True, slots=True)
class Offered:
    """What became of arrivals that may be refused, in their order."""

    arrivals: Sequence[Arrival]
    queue_seconds: Sequence[float | None]
    """Until the engine began each; None: it never did."""
    refused: int
    """With 429."""

    def share_within(self, targets: Mapping[str, float]) -> float:
        """Return the share of all arrivals of these tiers that were begun within their tier's seconds."""
        pairs = zip(self.arrivals, self.queue_seconds, strict=True)
        kept = [s is not None and s <= targets[a.tier] for a, s in pairs if a.tier in targets]
        return statistics.mean(kept)


def direct(running: Stack, arrivals: Sequence[Arrival]) -> Replayed:
    """First come, first served, in the engine's own queue, which does not know of tiers."""
    before = gauges.queue_time(running.engine)
    requests = [Request(at=a.at, prompt_tokens=a.prompt_tokens, output_tokens=a.output_tokens) for a in arrivals]
    answers = all_good(open_load.run(Spec(target=running.engine, requests=requests)))
    mean = gauges.queue_time(running.engine).mean_since(before)
    return Replayed(arrivals, [mean] * len(arrivals), [answer.seconds for answer in answers])


def stock(running: Stack, arrivals: Sequence[Arrival], *, slots: int) -> Replayed:
    """By stock Celery with as many threads as the engine has slots."""
    with places.folder() as where, places.redis_server(where) as url:
        results = url.removesuffix("/0") + "/1"
        env = places.environment(STOCK_BROKER=url, STOCK_RESULTS=results, STOCK_ENGINE=running.engine.socket)
        told = [(a.at, stack.body(prompt_tokens=a.prompt_tokens, output_tokens=a.output_tokens)) for a in arrivals]
        (where / "replay.json").write_text(json.dumps(told))
        options = ("-P", "threads", "-c", str(slots), "-l", "WARNING", "--without-mingle", "--without-gossip")
        command = ("-m", "celery", "-A", "bench.stock_app", "worker", *options)
        with places.process(*command, env=env, log=where / "worker.log"):
            times = json.loads(places.output("bench.stock_app", "replay", str(where / "replay.json"), env=env))
    return Replayed(arrivals, [began - sent for sent, began, _ in times], [end - sent for sent, _, end in times])


def fifo(running: Stack, arrivals: Sequence[Arrival]) -> Replayed:
    """By us, with one tier, one tenant and equal estimates: in order of arrival."""
    known = {job.id for job in running.jobs()}
    told = [(a.at, a.prompt_tokens, a.output_tokens) for a in arrivals]
    with places.folder() as where:
        (where / "replay.json").write_text(json.dumps(told))
        running.rows("replay", str(where / "replay.json"))
    running.until_empty(600)
    jobs = [job for job in running.jobs() if job.id not in known]
    return Replayed(arrivals, [job.queue_seconds for job in jobs], [job.seconds for job in jobs])


def direct_shares(running: Stack, arrivals: Sequence[Arrival], targets: Sequence[float]) -> dict[float, float]:
    """Do as `direct`, and return by each target, a bound of the engine's histogram, the share begun within it."""
    before = gauges.queue_time(running.engine)
    direct(running, arrivals)
    after = gauges.queue_time(running.engine)
    return {target: after.within_since(before, target) / len(arrivals) for target in targets}


def ours(running: Stack, arrivals: Sequence[Arrival]) -> Replayed:
    """By us as it is, of several tenants. Raises RuntimeError if anything is refused."""
    answers, in_engine = _asked(running, arrivals)
    jobs = {job.id: job for job in running.jobs()}
    waits = [jobs[answer.job_id].queue_seconds + in_engine for answer in all_good(answers)]
    return Replayed(arrivals, waits, [answer.seconds for answer in answers])


def offered(running: Stack, arrivals: Sequence[Arrival]) -> Offered:
    """By us as it is, which may refuse what it cannot begin in time; nobody asks again."""
    answers, in_engine = _asked(running, arrivals)
    began = {job.id: job.queue_seconds + in_engine for job in running.jobs() if job.started_at is not None}
    refused = sum(answer.status == TOO_MANY for answer in answers)
    return Offered(arrivals, [began.get(answer.job_id) for answer in answers], refused)


def _asked(running: Stack, arrivals: Sequence[Arrival]) -> tuple[list[Answer], float]:
    """Return all answers, and the mean time that what was begun waited in the engine's own queue."""
    keys = list(running.rows("keys", json.dumps({f"t{number}": 1 for number in range(TENANTS)})).values())
    requests = [_request(number, arrival, keys) for number, arrival in enumerate(arrivals)]
    before = gauges.queue_time(running.engine)
    answers = open_load.run(Spec(target=running.api, requests=requests))
    return answers, gauges.queue_time(running.engine).mean_since(before)


def _request(number: int, arrival: Arrival, keys: Sequence[str]) -> Request:
    tenant = hashlib.sha256(b"tenant%d" % number).digest()[0] % len(keys)
    return Request(
        at=arrival.at,
        prompt_tokens=arrival.prompt_tokens,
        output_tokens=arrival.output_tokens,
        service_tier=SERVICE_TIERS[arrival.tier],
        key=keys[tenant],
    )


def _is_online(arrival: Arrival) -> bool:
    return arrival.tier != "bulk"
