"""The whole stack as its users run it, on the simulated engine or on vLLM, for the length of a measurement."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from bench import places
from bench.load import Target
from project.stack import ports

MODEL: Final = "smollm2-135m-instruct"
READY_SECONDS: Final = 300.0
LIMITS_SECONDS: Final = 2.0
"""Until a changed row holds in all processes, with room to spare."""
BULK: Final = 1_000
"""Jobs in one call."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a job's row says; times by the wall clock."""

    id: str
    tenant: str
    tier: str
    length: str
    status: str
    worker: str
    prompt_tokens: int
    output_tokens: int | None
    estimate_seconds: float
    """Its service time, as the order took it."""
    created_at: float
    started_at: float | None
    finished_at: float | None

    @property
    def queue_seconds(self) -> float:
        """From its submission to its start. Raises ValueError if it did not start."""
        if self.started_at is None:
            raise ValueError(f"job {self.id} is {self.status} and did not start")
        return self.started_at - self.created_at

    @property
    def seconds(self) -> float:
        """From its submission to its end. Raises ValueError if it has not ended."""
        if self.finished_at is None:
            raise ValueError(f"job {self.id} is {self.status}")
        return self.finished_at - self.created_at


@dataclass(frozen=True, slots=True)
class Stack:
    """A running stack."""

    ready_file: Path
    folder: Path

    @property
    def access(self) -> Any:
        """What the ready file says now: a part that was started again has another process."""
        return json.loads(self.ready_file.read_text())

    @property
    def api(self) -> Target:
        """The front door."""
        return Target(self.access["base_url"], key=self.access["api_key"])

    @property
    def engine(self) -> Target:
        """The engine of the first worker, past everything of ours."""
        return Target("http://engine", socket=str(self.folder / "engines" / "worker-1.sock"))

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that works on the stack's database and Redis."""
        return _environment(self.folder, REDIS_URL=self.access["redis_url"])

    def client(self, key: str = "") -> httpx.Client:
        """Return a client of its API, by default for its first tenant."""
        target = self.api
        headers = {"Authorization": f"Bearer {key or target.key}"}
        return httpx.Client(base_url=target.base_url, headers=headers, timeout=120, trust_env=False)

    def rows(self, *arguments: str) -> Any:
        """Do what `bench.rows` does with the stack's database, and return what it printed."""
        return json.loads(places.output("bench.rows", *arguments, env=self.environment) or "null")

    def jobs(self) -> list[Job]:
        """Return all jobs, the oldest first."""
        return [Job(*row) for row in self.rows("jobs")]

    def update(self, table: str, where: Mapping[str, Any], **fields: Any) -> None:
        """Set fields of rows; see `LIMITS_SECONDS`."""
        self.rows("update", table, json.dumps(where), json.dumps(fields))

    def submit(self, count: int, *bodies: Mapping[str, Any], tier: str, key: str = "") -> list[str]:
        """Queue jobs by bulk calls, with the bodies in turn; returns their ids.

        Raises httpx.HTTPStatusError if one is refused.
        """
        ids: list[str] = []
        asked = ({"body": body, "tier": tier} for body in itertools.cycle(bodies))
        with self.client(key) as client:
            while len(ids) < count:
                jobs = list(itertools.islice(asked, min(BULK, count - len(ids))))
                answer = client.post("/api/v1/jobs/", json={"jobs": jobs}).raise_for_status()
                ids += [job["id"] for job in answer.json()["jobs"]]
        return ids

    def waiting(self) -> int:
        """Jobs that wait now."""
        return sum(queue["jobs"] for queue in self._queues())

    def in_flight(self) -> int:
        """Jobs that ready workers run, as each said last; what a dead one left leased is not among them."""
        return sum(row["in_flight"] for row in self._ready())

    def unfinished(self) -> int:
        """Jobs that wait or run now."""
        return sum(queue["jobs"] + queue["leases"] for queue in self._queues())

    def until_empty(self, seconds: float) -> None:
        """Wait until nothing waits or runs. Raises TimeoutError."""
        places.until(lambda: not self.unfinished(), seconds=seconds, what="all jobs ended", poll_seconds=0.2)

    def until_ready(self, workers: int) -> None:
        """Wait until so many workers may claim. Raises TimeoutError."""
        what = f"{workers} workers are ready"
        places.until(lambda: len(self._ready()) >= workers, seconds=READY_SECONDS, what=what, poll_seconds=0.1)

    def _queues(self) -> list[dict[str, Any]]:
        with self.client() as client:
            rows: list[dict[str, Any]] = client.get("/api/v1/queues/").raise_for_status().json()
        return rows

    def _ready(self) -> list[dict[str, Any]]:
        with self.client() as client:
            rows = client.get("/api/v1/workers/").raise_for_status().json()
        return [row for row in rows if row["state"] == "ready" and not row["stale"]]


@contextlib.contextmanager
def running(
    engine: str,
    *,
    sim: str = "",
    workers: int = 1,
    model: Mapping[str, Any] | None = None,
    lease_seconds: float = 20,
) -> Iterator[Stack]:
    """Run a stack; `sim` are options of the simulated engine, `model` fields of the default model's row."""
    with places.folder() as where:
        _prepare(where, model or {})
        ready, log = where / "ready.json", where / "up.log"
        env = places.environment(SLUICE_SIM_ARGS=sim, SLUICE_LEASE_SECONDS=str(lease_seconds))
        command = ("manage.py", "up", "--engine", engine, "--port", str(ports.any_free("127.0.0.1")))
        options = ("--state", str(where), "--ready-file", str(ready), "--workers", str(workers))
        with places.process(*command, *options, env=env, log=log) as started:
            places.until(
                lambda: ready.exists() or started.poll() is not None,
                seconds=READY_SECONDS,
                what="the stack is ready",
            )
            if not ready.exists():
                raise RuntimeError(f"the stack ended: {log.read_text(errors='replace')[-2000:]}")
            yield Stack(ready, where)


@contextlib.contextmanager
def worker(stack: Stack, *serve: str, sim: str) -> Iterator[None]:
    """Run a worker of these queues beside a stack that has none, named as the first one of `up`."""
    options = ("--engine", "sim", "--device", "cpu", "--name", "worker-1", *(f"--serve={each}" for each in serve))
    env = {**stack.environment, "SLUICE_SIM_ARGS": sim}
    with places.process("manage.py", "worker", *options, env=env, log=stack.folder / "worker.log"):
        stack.until_ready(1)
        yield


def body(*, prompt_tokens: int, output_tokens: int, **fields: Any) -> dict[str, Any]:
    """Return a chat request of about so many tokens in, for all engines alike, and exactly so many out."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "the " * prompt_tokens}]}
    return {**asked, "max_tokens": output_tokens, "ignore_eos": True, **fields}


def _prepare(where: Path, fields: Mapping[str, Any]) -> None:
    """Set what an engine reads only when it starts."""
    env = _environment(where)
    places.output("bench.rows", "migrate", env=env)
    if fields:
        update = ("update", "ServedModel", '{"is_default": true}', json.dumps(fields))
        places.output("bench.rows", *update, env=env)


def _environment(where: Path, **more: str) -> dict[str, str]:
    return places.environment(DJANGO_SETTINGS_MODULE="project.settings", SLUICE_STATE_DIR=str(where), **more)
