"""Valkey is killed and started again a moment later, while clients ask: who is let in, and who is told what."""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator

import httpx
import pytest
import redis
from django.conf import settings

from inference import broker
from inference.broker import Broker
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack
from tests.waiting import until

CAP, ASKERS = 60, 4
BEFORE, AFTER = 10, 20
"""Jobs that are in before it is killed, and how many are to be refused by the cap in the end."""
PAUSE_SECONDS = 0.05
RESTART_SECONDS = 40.0
FILL_SECONDS = 120.0
"""Room reserved for somebody who was told that Valkey is away is free again after a minute."""
SET = """
from inference.models import QueueLimit
QueueLimit.objects.update_or_create(queue={queue!r}, defaults={{"max_jobs": {cap}}})
"""
ROWS = """
import json
from django.db.models import Count, F, Sum
from inference.models import Job
tokens = Sum(F("prompt_tokens") + F("expected_tokens"))
row = Job.objects.filter(status="queued").aggregate(jobs=Count("id"), tokens=tokens, bytes=Sum("request_bytes"))
print(json.dumps([row["jobs"], row["tokens"], row["bytes"]]))
"""


class Asker(threading.Thread):
    """Asks for one job after the other, whatever it is told."""

    def __init__(self, stack: Stack) -> None:
        super().__init__(name="asker", daemon=True)
        self.answers: list[httpx.Response] = []
        self.enough = threading.Event()
        self._stack, self._model = stack, fleet.model(stack)

    def run(self) -> None:
        """Go on until it is enough."""
        messages = [{"role": "user", "content": "Is there room?"}]
        job = {"tier": "standard", "body": {"model": self._model, "messages": messages, "max_tokens": 8}}
        with self._stack.client() as client:
            while not self.enough.wait(PAUSE_SECONDS):
                self.answers.append(client.post("/api/v1/jobs/", json=job))


class Crowd:
    """Several that ask at once."""

    def __init__(self, stack: Stack) -> None:
        self.askers = [Asker(stack) for _ in range(ASKERS)]

    def told(self, status: int) -> list[httpx.Response]:
        """The answers of one status so far."""
        return [answer for asker in self.askers for answer in list(asker.answers) if answer.status_code == status]

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Let them ask for the length of a `with`."""
        for asker in self.askers:
            asker.start()
        try:
            yield
        finally:
            for asker in self.askers:
                asker.enough.set()
            for asker in self.askers:
                asker.join()


@pytest.fixture
def queue(workerless: Stack) -> Iterator[str]:
    """A queue with a cap, and nobody who claims; empty again afterwards."""
    name = f"{fleet.model(workerless)}.standard.short"

    def set_cap(cap: int | None) -> None:
        workerless.manage("shell", "--verbosity=0", "-c", SET.format(queue=name, cap=cap))

    with redis.Redis.from_url(workerless.access["redis_url"]) as client:
        # Until it is killed. Else it may forget what it had said in its last moments, and count that again only
        # once the reconciler has published it.
        client.config_set("appendfsync", "always")
    set_cap(CAP)
    until(lambda: _cap(workerless, name) == CAP, what="the web process knows the cap")
    yield name
    with workerless.client() as api:
        for job_id in fleet.unfinished(workerless):
            api.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()
    set_cap(None)


def _cap(stack: Stack, queue: str) -> int:
    return int(next(row["cap"] for row in fleet.queues(stack) if row["queue"] == queue))


def _counted(stack: Stack, queue: str) -> list[int]:
    """What Valkey counts as waiting: jobs, tokens, bytes."""
    client = broker.connect(stack.access["redis_url"])
    [row] = Broker(client, prefix=settings.BROKER_PREFIX).stats([queue])
    client.close()
    return [row.jobs, row.tokens, row.bytes]


def test_a_moment_without_valkey_lets_nobody_in_nor_one_too_many_afterwards(workerless: Stack, queue: str) -> None:
    crowd, valkey = Crowd(workerless), workerless.pid("valkey")
    with crowd.asking():
        until(lambda: len(crowd.told(201)) >= BEFORE, what="some are in")
        os.kill(valkey, signal.SIGKILL)
        until(lambda: crowd.told(503), what="clients are told that it is away")
        until(lambda: workerless.pid("valkey") != valkey, seconds=RESTART_SECONDS, what="it runs again")
        until(lambda: len(crowd.told(201)) >= CAP, seconds=FILL_SECONDS, what="the queue is full")
        until(lambda: len(crowd.told(429)) >= AFTER, what="the others are refused")

    _check_refusals(crowd)
    rows = json.loads(workerless.manage("shell", "--verbosity=0", "-c", ROWS))
    assert rows[0] == len(crowd.told(201)) == CAP
    assert {answer.json()["id"] for answer in crowd.told(201)} == fleet.unfinished(workerless)
    until(lambda: _counted(workerless, queue) == rows, seconds=RESTART_SECONDS, what=f"Valkey counts {rows}")


def _check_refusals(crowd: Crowd) -> None:
    away, full = crowd.told(503), crowd.told(429)
    assert len(away) + len(full) + CAP == sum(len(asker.answers) for asker in crowd.askers)
    assert all(int(answer.headers["Retry-After"]) >= 1 for answer in [*away, *full])
    assert {answer.json()["error"]["limit"] for answer in full} == {CAP}
