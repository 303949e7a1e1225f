"""Clients that come back when they were told to find room; who stays away holds nobody up."""

import heapq
import itertools
import math
import random
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
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

SERVICE_MS: Final = 800
BURST_MS, ALL_MS = 60_000, 150_000


class Client:
    """A request that obeys `Retry-After`, or never comes again."""

    def __init__(self, number: int) -> None:
        self.job_id = UUID(int=number)
        self.ticket = f"key=sk-ann:{number}"
        self.tries = 0


@dataclass(frozen=True)
class Bounds:
    """What the queue takes."""

    jobs: int = 1 << 30
    wait_ms: int | None = None
    slots: int = 8

    @property
    def per_second(self) -> float:
        """Jobs that the engine gets through."""
        return self.slots * 1000 / SERVICE_MS


class Scene:
    """A queue on a clock of the test, and an engine that takes the same time for each job."""

    def __init__(self, broker: Broker, bounds: Bounds, *, obeyed: bool = True) -> None:
        self.broker, self.bounds, self.obeyed = broker, bounds, obeyed
        self.ended = 0
        self.running: list[tuple[int, str, Token]] = []
        self.told: list[int] = []
        """Tries of those who were told to come back, once they are let in."""
        self.told_ms: list[int] = []
        """In how many ms, each time."""

    def run(self, arrivals: list[int]) -> None:
        clients = ((at, n, Client(n)) for n, at in enumerate(arrivals, start=1))
        events: list[tuple[int, int, Client]] = list(clients)
        order = itertools.count(len(events) + 1)
        while events:
            at, _, client = heapq.heappop(events)
            self.work(at)
            if (again := self.ask(client, at)) is not None and self.obeyed:
                heapq.heappush(events, (at + again, next(order), client))

    def work(self, now_ms: int) -> None:
        """Let the engine go on until now."""
        while self.running and self.running[0][0] <= now_ms:
            ended, _, token = heapq.heappop(self.running)
            self.turn_to(ended)
            self.broker.ack(token, status="succeeded")
            self.ended += 1
            self.fill(ended)
        self.turn_to(now_ms)
        self.fill(now_ms)

    def fill(self, now_ms: int) -> None:
        free = self.bounds.slots - len(self.running)
        if free:
            request = ClaimRequest((QUEUE,), Credit(free, 10**9), free, "w", 600.0)
            for claimed in self.broker.claim(request).jobs:
                heapq.heappush(self.running, (now_ms + SERVICE_MS, claimed.token.tag, claimed.token))

    def turn_to(self, now_ms: int) -> None:
        self.broker.client.set(f"{self.broker.prefix}clock", START_MS + now_ms)

    def ask(self, client: Client, now_ms: int) -> int | None:
        """Ask once: None if it was let in, else in how many ms it comes back."""
        answer = self.broker.admit(_asked(client, self.bounds))
        client.tries += 1
        if answer.refusal:
            self.told_ms.append(answer.refusal.retry_ms or 120_000)
            return math.ceil(self.told_ms[-1] / 1000) * 1000
        if client.tries > 1:
            self.told.append(client.tries)
        self.broker.publish([Entry(client.job_id, QUEUE, "ann", 100, 100, SERVICE_MS / 1000)])
        self.fill(now_ms)
        return None


def _asked(client: Client, bounds: Bounds) -> Asked:
    terms = QueueTerms(
        name=QUEUE,
        caps=QueueCaps(bounds.jobs),
        max_wait_ms=bounds.wait_ms,
        slots=bounds.slots,
        prompt_ms=4.0,
        output_ms=4.0,
        expected_tokens=100,
        line=(QUEUE,),
    )
    wanted = Wanted(client.job_id, QUEUE, 100, 100, 9)
    return Asked(tenant="ann", owner="key=sk-ann", ticket=client.ticket, queues=[terms], jobs=[wanted])


def _arrivals(bounds: Bounds, seed: int, *loads: tuple[int, float]) -> list[int]:
    """Draw arrivals: up to each moment so many times what the engine gets through."""
    chance, at, found = random.Random(seed), 0.0, []
    for until_ms, load in loads:
        while (at := at + chance.expovariate(load * bounds.per_second / 1000)) < until_ms:
            found.append(int(at))
        at = until_ms
    return found


@pytest.fixture
def queue(valkey: str) -> Iterator[Broker]:
    client = broker_module.connect(valkey)
    yield Broker(client, prefix=f"{{turns-{secrets.token_hex(6)}}}:")
    client.close()


@pytest.mark.once
@pytest.mark.parametrize("bounds", [Bounds(jobs=32, slots=16), Bounds(wait_ms=3_000, slots=16)])
def test_nine_of_ten_who_obey_are_let_in_at_their_first_retry(queue: Broker, bounds: Bounds) -> None:
    """The first of these queues drains in less than what is told is rounded by."""
    scene = Scene(queue, bounds)
    scene.run(_arrivals(bounds, 5, (BURST_MS, 1.5), (ALL_MS, 0.8)))
    assert len(scene.told) > 200
    assert scene.told.count(2) / len(scene.told) >= 0.9


@pytest.mark.once
def test_nobody_is_told_a_time_longer_than_the_line_takes(queue: Broker) -> None:
    bounds, burst_ms, load = Bounds(jobs=30), 30_000, 1.5
    scene = Scene(queue, bounds)
    scene.run(_arrivals(bounds, 5, (burst_ms, load)))
    longest_ms = (load - 1) * burst_ms
    assert 0.5 * longest_ms <= max(scene.told_ms) <= 1.1 * longest_ms


@pytest.mark.once
@pytest.mark.parametrize("bounds", [Bounds(jobs=30), Bounds(wait_ms=1_000)])
def test_the_engine_has_work_all_the_time_though_nobody_comes_back(queue: Broker, bounds: Bounds) -> None:
    scene = Scene(queue, bounds, obeyed=False)
    scene.run(_arrivals(bounds, 6, (BURST_MS, 2.0)))
    assert scene.ended >= 0.9 * bounds.per_second * BURST_MS / 1000


@pytest.fixture
def full(queue: Broker) -> Scene:
    """A queue that takes one job, and has it; nothing is claimed."""
    scene = Scene(queue, Bounds(jobs=1))
    scene.turn_to(0)
    queue.admit(_asked(Client(0), scene.bounds))
    return scene


def _told_ms(scene: Scene, client: Client) -> int:
    refusal = scene.broker.admit(_asked(client, scene.bounds)).refusal
    assert refusal is not None
    assert refusal.retry_ms is not None
    return refusal.retry_ms


@pytest.mark.once
def test_who_is_refused_again_has_one_place_and_not_two(full: Scene) -> None:
    ann = Client(1)
    full.turn_to(_told_ms(full, ann))
    _told_ms(full, ann)
    assert _places(full, ann) == 1


@pytest.mark.once
def test_one_that_asks_all_the_time_makes_the_line_no_longer_for_others(full: Scene) -> None:
    for _ in range(200):
        _told_ms(full, Client(1))
    assert _told_ms(full, Client(2)) <= 1_500


@pytest.mark.once
def test_a_refusal_counts_the_room_that_is_kept_for_another(full: Scene) -> None:
    full.bounds = Bounds(jobs=1, slots=1)  # else the other could start at once
    full.turn_to(_told_ms(full, Client(1)))
    refusal = full.broker.admit(_asked(Client(2), full.bounds)).refusal
    assert refusal is not None
    assert (refusal.limit, refusal.value, refusal.asked) == (1, 2, 1)


def _places(scene: Scene, client: Client) -> int:
    valkey: Any = scene.broker.client
    return int(valkey.zcard(f"{scene.broker.prefix}turns:{QUEUE}:{client.ticket}"))
