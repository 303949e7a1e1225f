"""Clients that come back when they were told to find room, though others ask all the time."""

import heapq
import itertools
import math
import random
import secrets
from typing import Final
from uuid import UUID

import pytest

from inference import broker as broker_module
from inference.admission.terms import Asked, QueueTerms, Wanted
from inference.broker import Broker, ClaimRequest, Credit, Entry, Token
from inference.limits import QueueCaps
from tests.integration import scripts_by_clock
from tests.integration.broker_jobs import QUEUE
from tests.integration.scripts_by_clock import START_MS

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests

SLOTS: Final = 8
SERVICE_MS: Final = 800
PER_SECOND: Final = SLOTS * 1000 / SERVICE_MS
BURST_MS, ALL_MS = 60_000, 150_000


class Client:
    """A request that obeys `Retry-After`."""

    def __init__(self, number: int) -> None:
        self.job_id = UUID(int=number)
        self.ticket = f"key=sk-ann:{number}"
        self.tries = 0


class Scene:
    """A queue on a clock of the test, and an engine that takes the same time for each job."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.running: list[tuple[int, str, Token]] = []
        self.told: list[int] = []
        """Tries of those who were told to come back, once they are let in."""

    def run(self, arrivals: list[int]) -> None:
        clients = ((at, n, Client(n)) for n, at in enumerate(arrivals, start=1))
        events: list[tuple[int, int, Client]] = list(clients)
        order = itertools.count(len(events) + 1)
        while events:
            at, _, client = heapq.heappop(events)
            self.work(at)
            if (again := self.ask(client, at)) is not None:
                heapq.heappush(events, (at + again, next(order), client))

    def work(self, now_ms: int) -> None:
        """Let the engine go on until now."""
        while self.running and self.running[0][0] <= now_ms:
            ended, _, token = heapq.heappop(self.running)
            self.turn_to(ended)
            self.broker.ack(token, status="succeeded")
            self.fill(ended)
        self.turn_to(now_ms)
        self.fill(now_ms)

    def fill(self, now_ms: int) -> None:
        free = SLOTS - len(self.running)
        if free:
            request = ClaimRequest((QUEUE,), Credit(free, 10**9), free, "w", 600.0)
            for claimed in self.broker.claim(request).jobs:
                heapq.heappush(self.running, (now_ms + SERVICE_MS, claimed.token.tag, claimed.token))

    def turn_to(self, now_ms: int) -> None:
        self.broker.client.set(f"{self.broker.prefix}clock", START_MS + now_ms)

    def ask(self, client: Client, now_ms: int) -> int | None:
        """Ask once: None if it was let in, else in how many ms it comes back."""
        answer = self.broker.admit(_asked(client))
        client.tries += 1
        if answer.refusal:
            return math.ceil((answer.refusal.retry_ms or 120_000) / 1000) * 1000
        if client.tries > 1:
            self.told.append(client.tries)
        self.broker.publish([Entry(client.job_id, QUEUE, "ann", 100, 100, SERVICE_MS / 1000)])
        self.fill(now_ms)
        return None


def _asked(client: Client) -> Asked:
    terms = QueueTerms(
        name=QUEUE,
        caps=QueueCaps(30),
        slots=SLOTS,
        prompt_ms=4.0,
        output_ms=4.0,
        expected_tokens=100,
        line=(QUEUE,),
    )
    wanted = Wanted(client.job_id, QUEUE, 100, 100, 9)
    return Asked(tenant="ann", owner="key=sk-ann", ticket=client.ticket, queues=[terms], jobs=[wanted])


def _arrivals(seed: int) -> list[int]:
    chance, at, found = random.Random(seed), 0.0, []
    while at < ALL_MS:
        load = 1.5 if at < BURST_MS else 0.8
        at += chance.expovariate(load * PER_SECOND / 1000)
        found.append(int(at))
    return found


@pytest.mark.once
def test_nine_of_ten_who_obey_are_let_in_at_their_first_retry(valkey: str) -> None:
    client = broker_module.connect(valkey)
    scene = Scene(Broker(client, prefix=f"{{turns-{secrets.token_hex(6)}}}:"))
    scene.run(_arrivals(seed=5))
    client.close()
    assert len(scene.told) > 200
    assert scene.told.count(2) / len(scene.told) >= 0.9
