"""Calls on hold on one web process: what they cost it, their order, and the places of those that leave.

`make holds CALLS=…` holds as many as you like, and says what they cost.
"""

import asyncio
import io
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from http.client import HTTPMessage, HTTPResponse
from types import SimpleNamespace
from typing import Any, Final, Self, cast

import psutil
import psycopg
import pytest
from django.conf import settings

from inference import broker, executor
from inference.broker import Broker
from tests import databases
from tests.acceptance import fleet
from tests.acceptance.stacks import Stack

logger = logging.getLogger(__name__)

CALLS: Final = int(os.environ.get("HELD_CALLS", "200"))
CAP: Final = 10
EDIT: Final = """
from inference.models import QueueLimit, Tier
for tier, seconds in (("bulk", 500), ("realtime", 1)):
    Tier.objects.filter(name=tier).update(on_full="hold", max_held_jobs={calls}, hold_seconds=seconds)
    QueueLimit.objects.update_or_create(queue=f"{model}.{{tier}}.short", defaults={{"max_jobs": {cap}}})
"""

pytestmark = [pytest.mark.timeout(600), *([] if "HELD_CALLS" in os.environ else [pytest.mark.once])]


@dataclass
class Call:
    """A connection of its own, which waits for one answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, stack: Stack, body: dict[str, Any]) -> Self:
        address, _, port = stack.base_url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(address, int(port))
        content = json.dumps(body).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {stack.api_key}\r\n"
        writer.write(f"{head}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        return cls(reader, writer)

    async def answer(self) -> tuple[int, HTTPMessage, dict[str, Any]]:
        """Status, headers and body, once they are there."""
        received = io.BytesIO(await self.reader.read())
        response = HTTPResponse(cast("socket.socket", SimpleNamespace(makefile=lambda _mode: received)))
        response.begin()
        await self.leave()
        return response.status, response.headers, json.loads(response.read())

    async def leave(self) -> None:
        """Close the connection."""
        self.writer.close()
        await self.writer.wait_closed()


@dataclass(frozen=True)
class Cost:
    """What the web process has."""

    threads: int
    connections: int
    """To the database; on PostgreSQL of all the stack's processes."""
    rss_mib: float

    @classmethod
    def of(cls, stack: Stack) -> Self:
        web = psutil.Process(stack.pid("web"))
        return cls(web.num_threads(), _connections(stack, web), web.memory_info().rss / 2**20)


def _connections(stack: Stack, web: psutil.Process) -> int:
    url = databases.of_stack(stack.folder).get(databases.URL)
    if url is None:
        return sum(file.path.endswith(".sqlite3") for file in web.open_files())
    with psycopg.connect(url) as connection:
        count = "SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()"
        return int(connection.execute(count).fetchall()[0][0])


@pytest.fixture(scope="module")
def stack(workerless: Stack) -> Stack:
    """A stack without an engine, where full queues of two tiers hold calls: realtime's for a second."""
    edit = EDIT.format(calls=CALLS, model=fleet.model(workerless), cap=CAP)
    workerless.manage("shell", "--verbosity=0", "-c", edit)
    return workerless


@pytest.fixture
def queue(stack: Stack) -> Iterator[Broker]:
    """The stack's queue."""
    client = broker.connect(stack.access["redis_url"])
    yield Broker(client, prefix=settings.BROKER_PREFIX)
    client.close()


async def _waits(queue: Broker, name: str, count: int) -> None:
    """Wait until so many jobs wait in a queue."""
    async with asyncio.timeout(60):
        while queue.stats([name])[0].jobs != count:  # noqa: ASYNC110 (a fact of another process)
            await asyncio.sleep(0.001)


async def _hold(stack: Stack, queue: Broker, count: int) -> AsyncIterator[Call]:
    """Open calls at a full queue, each once the one before is on hold."""
    name, body = f"{fleet.model(stack)}.bulk.short", _chat(stack)
    before = queue.stats([name])[0].jobs
    for i in range(1, count + 1):
        call = await Call.open(stack, body)
        await _waits(queue, name, before + i)
        yield call


def _chat(stack: Stack, service_tier: str = "flex") -> dict[str, Any]:
    messages = [{"role": "user", "content": "Hold the line."}]
    return {"model": fleet.model(stack), "messages": messages, "max_tokens": 8, "service_tier": service_tier}


async def _held_and_answered(stack: Stack, queue: Broker) -> None:
    fleet.submit(stack, CAP, tiers=("bulk",))
    idle = Cost.of(stack)
    calls = [call async for call in _hold(stack, queue, CALLS)]
    held = Cost.of(stack)
    assert sum(row["on_hold"] for row in fleet.queues(stack)) == CALLS
    logger.info("%d calls on hold: %s; before: %s", CALLS, held, idle)
    assert held.threads - idle.threads <= executor.THREADS
    assert held.connections - idle.connections <= executor.THREADS

    calls = await _one_leaves(stack, queue, calls)
    with fleet.worker(stack, "after-holds", sim="--decode-tps=2000"):
        answers = await asyncio.gather(*(call.answer() for call in calls))
    assert {status for status, _, _ in answers} == {200}
    started = _started(stack)
    order = [started[headers["x-sluice-job-id"]] for _, headers, _ in answers]
    assert order == sorted(order)


async def _one_leaves(stack: Stack, queue: Broker, calls: list[Call]) -> list[Call]:
    """Find no place on hold left, until one leaves."""
    status, headers, body = await (await Call.open(stack, _chat(stack))).answer()
    assert (status, body["error"]["reason"], body["error"]["limit"]) == (429, "queue_jobs", CAP)
    assert 1 <= int(headers["retry-after"]) <= 120
    leaver = calls.pop(CALLS // 2)
    await leaver.leave()
    await _waits(queue, f"{fleet.model(stack)}.bulk.short", CAP + CALLS - 1)
    return [*calls, *[call async for call in _hold(stack, queue, 1)]]


def _started(stack: Stack) -> dict[str, str]:
    """When each job started, by id."""
    found, url = dict[str, str](), "/api/v1/jobs/?limit=500&status=succeeded"
    with stack.client() as client:
        while url:
            page = client.get(url).raise_for_status().json()
            found |= {job["id"]: job["started_at"] for job in page["results"]}
            url = page["next"]
    return found


def test_calls_on_hold_cost_neither_threads_nor_connections_and_start_in_order(
    stack: Stack, queue: Broker
) -> None:
    asyncio.run(_held_and_answered(stack, queue))


def test_a_hold_ends_without_any_worker(stack: Stack) -> None:
    waiting = fleet.submit(stack, CAP, tiers=("realtime",))
    with stack.client() as client:
        answer = client.post("/v1/chat/completions", json=_chat(stack, service_tier="priority"))
        error = answer.json()["error"]
        job = fleet.job(stack, answer.headers["x-sluice-job-id"])
        for job_id in waiting:
            client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()

    assert (answer.status_code, error["code"], error["limit"]) == (429, "queue_full", CAP)
    assert 1 <= int(answer.headers["Retry-After"]) <= 120
    assert (job["status"], job["error"]["code"]) == ("expired", "queue_full")
