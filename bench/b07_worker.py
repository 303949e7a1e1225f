"""B7: what one worker gets through when the engine costs nothing, against stock Celery's."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import redis

from bench import places, statistics
from bench.row import Measured, Row, Say
from inference import broker

JOBS: Final = 5_000
SLOTS: Final = 64
ROUNDS: Final = 3
LIMIT_SECONDS: Final = 300.0
MODEL: Final = "smollm2-135m-instruct"
QUEUE: Final = f"{MODEL}.standard.short"
PREFIX: Final = "{sluice}:"


def measure(say: Say) -> Measured:
    """Work a full queue off, ours and stock in turn, on one server."""
    ours: list[float] = []
    stock: list[float] = []
    for number in range(1, ROUNDS + 1):
        stock.append(_stock())
        say(f"round {number} of {ROUNDS}: stock {stock[-1]:.0f} jobs/s")
        ours.append(_ours())
        say(f"round {number} of {ROUNDS}: ours {ours[-1]:.0f} jobs/s")
    figures = {
        "ratio": statistics.ratio(statistics.median(ours), statistics.median(stock)),
        "ours_jobs_per_second": statistics.median(ours),
        "stock_jobs_per_second": statistics.median(stock),
        "ours_slowest_round": min(ours),
        "stock_fastest_round": max(stock),
    }
    return Measured(figures, _NOTES)


_NOTES: Final = (
    f"{JOBS:,} jobs queued before the worker starts, {SLOTS} slots, {ROUNDS} rounds each in turn, medians.",
    "The clock runs from the first claim until the last job is acknowledged.",
    "Ours: rows started and finished and their history committed, under leases.",
    "Stock: early acknowledgement and prefetch as by default, results in Redis.",
    "Both: a Valkey of their own with its append-only file synced every second, events off, log level INFO.",
)


def _ours() -> float:
    with places.folder() as where, places.redis_server(where) as url:
        env = _queued(where / "state", url)
        client = broker.connect(url)
        looking = broker.Broker(client, prefix=PREFIX)
        with places.process("-m", "bench.null_worker", env=env, log=where / "worker.log"):
            seconds = _seconds(
                begun=lambda: looking.stats([QUEUE])[0].jobs < JOBS,
                done=lambda: (s := looking.stats([QUEUE])[0]).jobs == s.leases == 0,
                log=where / "worker.log",
            )
        client.close()
        if (succeeded := int(places.output("bench.rows", "count", env=env))) != JOBS:
            raise RuntimeError(f"{succeeded} of {JOBS} jobs succeeded")
    return JOBS / seconds


def _queued(state: Path, url: str) -> dict[str, str]:
    """Queue the jobs, rows and entries; returns the environment in which they are found."""
    env = places.environment(DJANGO_SETTINGS_MODULE="project.settings", SLUICE_STATE_DIR=str(state), REDIS_URL=url)
    state.mkdir()
    places.output("bench.rows", "migrate", env=env)
    places.output("bench.rows", "update", "ServedModel", "{}", f'{{"max_num_seqs": {SLOTS}}}', env=env)
    places.output("bench.rows", "queue", str(JOBS), "1", env=env)
    return env


def _stock() -> float:
    with places.folder() as where, places.redis_server(where) as url:
        broker_url, results_url = url, url.removesuffix("/0") + "/1"
        env = places.environment(STOCK_BROKER=broker_url, STOCK_RESULTS=results_url)
        places.output("bench.stock_app", "queue", str(JOBS), env=env)
        options = ("-P", "threads", "-c", str(SLOTS), "-l", "INFO", "--without-mingle", "--without-gossip")
        command = ("-m", "celery", "-A", "bench.stock_app", "worker", *options)
        with (
            places.redis_client(broker_url) as queue,
            places.redis_client(results_url) as results,
            places.process(*command, env=env, log=where / "worker.log"),
        ):
            seconds = _seconds(
                begun=lambda: _length(queue) < JOBS,
                done=lambda: results.dbsize() == JOBS and not _length(queue) and not queue.hlen("unacked"),
                log=where / "worker.log",
            )
            _check_all_succeeded(results)
    return JOBS / seconds


def _check_all_succeeded(results: redis.Redis) -> None:
    """Raise RuntimeError unless each task left the answer: one that the worker refuses leaves a result, too."""
    stored = [json.loads(value) for value in results.mget(results.keys("celery-task-meta-*")) if value]
    if (succeeded := sum(result["status"] == "SUCCESS" for result in stored)) != JOBS:
        raise RuntimeError(f"{succeeded} of {JOBS} stock tasks succeeded")


def _seconds(*, begun: Callable[[], bool], done: Callable[[], bool], log: Path) -> float:
    try:
        places.until(begun, seconds=60, what="the worker claims", poll_seconds=0.002)
        began = time.monotonic()
        places.until(done, seconds=LIMIT_SECONDS, what="the queue is worked off", poll_seconds=0.02)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{log.read_text(errors='replace')[-2000:]}") from None
    return time.monotonic() - began


def _length(queue: redis.Redis) -> int:
    return int(queue.llen("celery"))


ROW: Final = Row(
    id="B7",
    text="jobs/s of one worker with 64 slots, engine call replaced by nothing ÷ stock Celery (Redis, threads)",
    goals=("ratio >= 3",),
    measure=measure,
)
