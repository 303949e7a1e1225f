"""Real worker processes on the simulated engine, for tests of what only processes show."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.conf import settings
from django.db import connection

from inference import lifecycle
from inference.broker import Broker, QueueStats
from inference.models import Job, JobEvent, Worker
from inference.states import JobEventKind, JobStatus, WorkerState
from project.celery import TRANSPORT
from tests import databases, factories
from tests.waiting import PATIENCE_SECONDS, until
from workers import process_tree

LEASE_SECONDS = 2.0
START_SECONDS = 60.0
"""A loaded machine takes its time to start Python."""
assert TRANSPORT  # importing it makes `redis://` ours
SLOW = "--decode-tps 20"
"""A job of 40 tokens takes two seconds."""
FAST = "--decode-tps 20000"


class Process:
    """One worker."""

    def __init__(self, name: str, arguments: Sequence[str], env: dict[str, str], log: Path) -> None:
        self.name = f"{name}@test"
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *arguments], cwd=settings.BASE_DIR, env=env, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def row(self) -> Worker | None:
        return Worker.objects.filter(name=self.name).first()

    def reaches(self, state: WorkerState) -> None:
        until(lambda: (row := self.row) and row.state == state, seconds=START_SECONDS)

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ends(self) -> int:
        """Wait for its end, and return its exit status."""
        return self._process.wait(START_SECONDS)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def engine(self) -> set[int]:
        """Its engine's processes, shim included."""
        table = process_tree.processes()
        shims = {process.pid for process in table if process.parent == self.pid}
        return shims.union(*(process_tree.members(shim) for shim in shims))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class Fleet:
    """The workers of one test, on its database and broker."""

    def __init__(self, folder: Path, valkey: str, prefix: str) -> None:
        self.celery = Celery(
            "test", broker=valkey, broker_transport_options={"global_keyprefix": prefix}, set_as_current=False
        )
        self._folder = folder
        self._processes: list[Process] = []
        self._env = {
            **os.environ,
            databases.URL: databases.url_of(connection.settings_dict["NAME"]),
            "REDIS_URL": valkey,
            "SLUICE_BROKER_PREFIX": prefix,
            "SLUICE_STATE_DIR": str(folder),
            "SLUICE_LEASE_SECONDS": str(LEASE_SECONDS),
            "SLUICE_DRAIN_SECONDS": "20",
            "PYTHONWARNINGS": "ignore",
        }

    def worker(self, name: str = "worker-1", *options: str, sim: str = FAST, **env: str) -> Process:
        """Start an engine worker."""
        arguments = (
            "manage.py",
            "worker",
            "--device",
            "cpu",
            "--engine",
            "sim",
            "--name",
            f"{name}@test",
            *options,
        )
        return self._start(name, arguments, {"SLUICE_SIM_ARGS": sim, **env})

    def control(self) -> Process:
        """Start a control worker, as the stack does."""
        options = ("-P", "threads", "-c", "2", "-Q", "control", "-n", "control@test", "-l", "info")
        return self._start("control", ("-m", "celery", "-A", "project", "worker", *options), {})

    def ready(self, name: str = "worker-1", *options: str, **settings_: str) -> Process:
        """Start an engine worker and wait until it may claim."""
        process = self.worker(name, *options, **settings_)
        process.reaches(WorkerState.READY)
        return process

    def close(self) -> None:
        self.celery.close()
        for process in self._processes:
            process.kill()

    def _start(self, name: str, arguments: Sequence[str], env: dict[str, str]) -> Process:
        process = Process(name, arguments, self._env | env, self._folder / f"{name}.log")
        self._processes.append(process)
        return process


@pytest.fixture
def fleet(sluice: Broker, valkey: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Starts workers; none is left when the test ends."""
    monkeypatch.setattr(settings, "REDIS_URL", valkey)
    monkeypatch.setattr(settings, "BROKER_PREFIX", sluice.prefix)
    monkeypatch.setattr(settings, "LEASE_SECONDS", LEASE_SECONDS)
    started = Fleet(tmp_path, valkey, sluice.prefix)
    yield started
    started.close()


def ask(fleet: Fleet, command: str, *, seconds: float = PATIENCE_SECONDS, **arguments: Any) -> dict[str, Any]:
    """Send a control command to the one node there is, and return its answer by its name."""
    answers = fleet.celery.control.broadcast(command, arguments=arguments, reply=True, timeout=seconds, limit=1)
    return {node: answer for found in answers or [] for node, answer in found.items()}


def answers_pings(fleet: Fleet, process: Process) -> None:
    # One that does not listen yet never hears of it, and is asked again.
    until(lambda: ask(fleet, "ping", seconds=2) == {process.name: {"ok": "pong"}}, seconds=START_SECONDS)


def new_job(*, output_tokens: int, content: str = "Tell me a story.", **overrides: Any) -> lifecycle.NewJob:
    """A job of so many output tokens, not yet on record."""
    body = json.dumps({**factories.make_chat(content), "max_tokens": output_tokens, "ignore_eos": True})
    return factories.make_new_job(**{"request": body, "expected_tokens": output_tokens, **overrides})


def submit(
    count: int, *, output_tokens: int = 4, content: str = "Tell me a story.", **overrides: Any
) -> list[Any]:
    """Queue jobs of so many output tokens; returns their ids."""
    made = [new_job(output_tokens=output_tokens, content=content, **overrides) for _ in range(count)]
    jobs = lifecycle.create(made)
    factories.publish(*jobs)
    return [job.id for job in jobs]


def statuses(ids: Sequence[Any]) -> dict[str, int]:
    found = list(Job.objects.filter(id__in=ids).values_list("status", flat=True))
    return {status: found.count(status) for status in sorted(set(found))}


def all_are(ids: Sequence[Any], status: JobStatus, *, seconds: float = START_SECONDS) -> None:
    until(lambda: statuses(ids) == {str(status): len(ids)}, seconds=seconds)


def running(ids: Sequence[Any]) -> int:
    return statuses(ids).get(JobStatus.RUNNING, 0)


def wait_until_started(ids: Sequence[Any]) -> None:
    """Wait until each of the jobs has begun: that stays so, while all run at once for a moment at best."""
    until(lambda: not Job.objects.filter(id__in=ids, started_at=None).exists(), what="all have started")


def events(ids: Sequence[Any], kind: JobEventKind) -> int:
    return JobEvent.objects.filter(job_id__in=ids, kind=kind).count()


def queue(broker: Broker, tier: str = "standard") -> QueueStats:
    [stats] = broker.stats([f"{factories.MODEL}.{tier}.short"])
    return stats


def nothing_is_held(broker: Broker, tier: str = "standard") -> None:
    until(lambda: (found := queue(broker, tier)) and found.jobs == found.leases == 0)
