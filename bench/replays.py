"""The same arrivals in four ways over one engine: straight into it, by stock Celery, and by us in two orders."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench import gauges, open_load, places, stack, statistics
from bench.open_load import Request, Spec, all_good
from bench.stack import Stack
from bench.trace import SERVICE_TIERS, Arrival

TENANTS: Final = 8
LONG_TOKENS: Final = 2_048
"""Of a prompt: a longer one is in the length class `long`."""


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


def ours(running: Stack, arrivals: Sequence[Arrival]) -> Replayed:
    """By us as it is, of several tenants."""
    keys = list(running.rows("keys", json.dumps({f"t{number}": 1 for number in range(TENANTS)})).values())
    requests = [_request(number, arrival, keys) for number, arrival in enumerate(arrivals)]
    before = gauges.queue_time(running.engine)
    answers = all_good(open_load.run(Spec(target=running.api, requests=requests)))
    in_engine = gauges.queue_time(running.engine).mean_since(before)
    jobs = {job.id: job for job in running.jobs()}
    waits = [jobs[answer.job_id].queue_seconds + in_engine for answer in answers]
    return Replayed(arrivals, waits, [answer.seconds for answer in answers])


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
