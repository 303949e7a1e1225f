"""Workers started by hand beside a stack of none, and what they and their engines say of themselves."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
from django.conf import settings

from tests.acceptance import stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

START_SECONDS = 60.0
SLOW = "--decode-tps=20"
"""Options of a simulated engine whose jobs can be met while they run."""
LASTING = 120
"""Tokens of a job that runs for 6 s there: on a busy machine seconds pass until a test has seen it run."""
ASKERS = 8
UNFINISHED = ("spilled", "queued", "running")


@dataclass(frozen=True)
class WorkerProcess:
    """A running `manage.py worker`."""

    stack: Stack
    name: str
    process: subprocess.Popen[bytes]

    def is_in(self, *states: str) -> bool:
        """Whether the registry says that it is in one of `states`; not before its first report."""
        row = registry(self.stack).get(self.name)
        return row is not None and row["state"] in states and not row["stale"]

    def wait_for(self, *states: str) -> None:
        until(lambda: self.is_in(*states), seconds=START_SECONDS, what=f"{self.name} is {states}")

    def engine_processes(self) -> list[psutil.Process]:
        """Its shim, and all below it; they outlive `kill -9` of the worker if the shim does not do its work."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def engine(self) -> psutil.Process:
        """The engine's own process: the shim's first child."""
        [shim] = psutil.Process(self.process.pid).children()
        return shim.children()[0]

    def running_sequences(self) -> int:
        """What the engine itself says that it runs."""
        return engine_gauge(self.stack, self.name, "vllm:num_requests_running")

    def log(self) -> str:
        """All that it said so far."""
        return (self.stack.folder / f"{self.name}.log").read_text(errors="replace")

    def kill(self, signum: int = signal.SIGKILL) -> None:
        self.process.send_signal(signum)


def registry(stack: Stack) -> dict[str, dict[str, Any]]:
    """What the workers last reported, by their names without the host."""
    with stack.client() as client:
        rows = client.get("/api/v1/workers/").raise_for_status().json()
    return {row["name"].partition("@")[0]: row for row in rows}


def is_whole(stack: Stack, *, unheard: Collection[str] = ()) -> bool:
    """Whether every part runs, and all workers but those `unheard` are ready."""
    try:
        pids = json.loads(stack.ready_file.read_text())["pids"]
        rows = registry(stack)
    except (httpx.HTTPError, OSError):
        return False
    workers = [name for name in pids if name.startswith("worker") and name not in unheard]
    return all(map(_lives, pids.values())) and all(_is_ready(rows.get(name), pids[name]) for name in workers)


def _lives(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def _is_ready(row: dict[str, Any] | None, pid: int) -> bool:
    """Whether the worker says so, and not the one before it, whose row stays for a while."""
    with contextlib.suppress(psutil.NoSuchProcess):
        runs_for = time.time() - psutil.Process(pid).create_time()
        return row is not None and row["state"] == "ready" and row["heartbeat_age_seconds"] < runs_for
    return False


def engine_gauge(stack: Stack, worker: str, name: str) -> int:
    """One gauge of the engine of `worker`, asked on the engine's own socket."""
    socket = stack.folder / "state" / "engines" / f"{worker}.sock"
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=60) as client:
        page = client.get("http://engine/metrics").raise_for_status().text
    found = re.search(rf"^{re.escape(name)}(?:{{.*}})? ([0-9.e+]+)$", page, re.MULTILINE)
    assert found, page
    return int(float(found[1]))


@contextlib.contextmanager
def worker(
    stack: Stack, name: str, *arguments: str, env: Mapping[str, str] = stacks.NO_ENV, sim: str = ""
) -> Iterator[WorkerProcess]:
    """A worker for the length of a `with`; `sim` are options of its simulated engine."""
    command = [sys.executable, "manage.py", "worker", "--device", "cpu", "--engine", "sim", "--name", name]
    with (stack.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=settings.BASE_DIR,
            env={**stack.environment(), "SLUICE_SIM_ARGS": sim, **env},
            stdout=log,
            stderr=log,
        )
    try:
        yield WorkerProcess(stack, name, process)
    finally:
        process.kill()
        process.wait()


def submit(
    stack: Stack,
    count: int,
    *,
    tiers: tuple[str, ...] = ("standard",),
    max_tokens: int = 16,
    **fields: object,
) -> list[str]:
    """Submit `count` jobs in one call, the tiers taking turns; returns their ids. `fields` go into the bodies."""
    served = model(stack)
    with stack.client() as client:
        jobs = [
            {
                "tier": tiers[i % len(tiers)],
                "body": {
                    "model": served,
                    "max_tokens": max_tokens,
                    "messages": [{"role": "user", "content": f"Question number {i}"}],
                    **fields,
                },
            }
            for i in range(count)
        ]
        accepted = client.post("/api/v1/jobs/", json={"jobs": jobs}).raise_for_status().json()["jobs"]
    return [job["id"] for job in accepted]


def model(stack: Stack) -> str:
    """Name of the model that it serves."""
    with stack.client() as client:
        return str(client.get("/v1/models").raise_for_status().json()["data"][0]["id"])


def job(stack: Stack, job_id: str) -> dict[str, Any]:
    """One job with its history."""
    with stack.client() as client:
        found: dict[str, Any] = client.get(f"/api/v1/jobs/{job_id}/").raise_for_status().json()
    return found


def jobs(stack: Stack, ids: list[str]) -> list[dict[str, Any]]:
    """Several jobs with their histories; asked for side by side, since on a busy machine each takes its time."""
    with stack.client() as client, ThreadPoolExecutor(ASKERS) as pool:
        answers = pool.map(lambda job_id: client.get(f"/api/v1/jobs/{job_id}/").raise_for_status(), ids)
        return [answer.json() for answer in answers]


def count(stack: Stack, status: str) -> int:
    """How many jobs are in a status; of up to 500."""
    with stack.client() as client:
        return len(client.get("/api/v1/jobs/", params={"status": status, "limit": 500}).json()["results"])


def wait_until_started(stack: Stack) -> None:
    """Wait until no job is queued any more: that stays so, while all run at once for a moment at best."""
    until(lambda: count(stack, "queued") == 0, seconds=START_SECONDS, what="all have started")


def unfinished(stack: Stack) -> set[str]:
    """Ids of the jobs that wait or run; of up to 500 each."""
    with stack.client() as client:
        pages = [client.get("/api/v1/jobs/", params={"status": s, "limit": 500}) for s in UNFINISHED]
    return {job["id"] for page in pages for job in page.raise_for_status().json()["results"]}


def is_idle(stack: Stack) -> bool:
    """Whether no job waits or runs."""
    with stack.client() as client:
        pages = [client.get("/api/v1/jobs/", params={"status": s, "limit": 1}) for s in UNFINISHED]
    return not any(page.raise_for_status().json()["results"] for page in pages)


def wait_until_finished(stack: Stack, ids: list[str], *, seconds: float = 60) -> list[dict[str, Any]]:
    """Wait until all are in a terminal status, and return them."""
    found: list[dict[str, Any]] = []

    def are_finished() -> bool:
        if unfinished(stack).isdisjoint(ids):  # or one went from one list to the other between the two questions
            found[:] = jobs(stack, ids)
        return bool(found) and all(job["finished_at"] for job in found)

    until(are_finished, seconds=seconds, what=f"{len(ids)} jobs are finished")
    return found


def all_ids(stack: Stack) -> set[str]:
    """Ids of all jobs there ever were."""
    found, url = set[str](), "/api/v1/jobs/?limit=500"
    with stack.client() as client:
        while url:
            page = client.get(url).raise_for_status().json()
            found |= {job["id"] for job in page["results"]}
            url = page["next"]
    return found


def queues(stack: Stack) -> list[dict[str, Any]]:
    """All queues."""
    with stack.client() as client:
        rows: list[dict[str, Any]] = client.get("/api/v1/queues/").raise_for_status().json()
    return rows


def waiting(stack: Stack) -> int:
    """Jobs in all queues."""
    return sum(row["jobs"] for row in queues(stack))


def leases(stack: Stack) -> int:
    """Jobs held by workers."""
    return sum(row["leases"] for row in queues(stack))
