"""A max wait is kept when weightier work comes all the time, and refuses nothing that could start."""

import heapq
import itertools
import random
import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import pytest

from inference import broker as broker_module
from inference.admission.terms import Asked, QueueTerms, Wanted
from inference.broker import Broker, ClaimRequest, Credit, Entry, TierTerms, Token
from inference.capacity import Weightier
from inference.limits import QueueCaps
from inference.retries import Backoff
from tests.integration import scripts_by_clock
from tests.integration.scripts_by_clock import START_MS, set_clock

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests
pytestmark = pytest.mark.once

REALTIME, STANDARD, LONG = "m.realtime.short", "m.standard.short", "m.standard.long"
TIERS: Final = {"realtime": TierTerms(400.0), "standard": TierTerms(100.0)}
SLOTS, SERVICE_MS, MAX_WAIT_MS, ALL_MS = 8, 800, 3_000, 60_000
PER_MS: Final = SLOTS / SERVICE_MS
"""Jobs that the engine gets through."""


class Engine:
    """An engine that takes the same time for each job of two tiers, on a clock of the test."""

    def __init__(self, broker: Broker, *, obeyed: bool = False) -> None:
        self.broker, self.obeyed = broker, obeyed
        """Whether those refused come back when they were told to."""
        self.came: dict[UUID, int] = {}
        self.waits: dict[UUID, int] = {}
        """Of the standard jobs that began, ms."""
        self.refused: list[tuple[int, str]] = []
        """When standard jobs were, ms, and whose."""
        self._running: list[tuple[int, UUID, Token]] = []
        self.is_stopped = False

    def run(self, arrivals: list[tuple[int, str]], others: Sequence[tuple[int, str]] = ()) -> None:
        """Ask for room as the arrivals come, Bob's `others` among them, and work meanwhile."""
        asks = [*((at, queue, "ann") for at, queue in arrivals), *((at, queue, "bob") for at, queue in others)]
        numbers = itertools.count(len(self.came) + 1)
        left = [(at, next(numbers), queue, tenant) for at, queue, tenant in sorted(asks)]
        while left:
            at, number, queue, tenant = heapq.heappop(left)
            self.work(at)
            again_ms = self.ask(UUID(int=number), queue, at, tenant)
            if again_ms is not None and self.obeyed:
                heapq.heappush(left, (at + again_ms, number, queue, tenant))

    def ask(self, job_id: UUID, queue: str, at: int, tenant: str) -> int | None:
        """Ask once: None if it was let in, else in how many ms it may come back."""
        self.came[job_id] = at
        refusal = self.broker.admit(_asked(job_id, queue, tenant)).refusal
        if refusal:
            assert queue != REALTIME
            self.refused.append((at, tenant))
            return refusal.retry_ms or ALL_MS
        self.broker.publish([Entry(job_id, queue, tenant, 100, 100, SERVICE_MS / 1000)])
        self._fill(at)
        return None

    def work(self, now_ms: int) -> None:
        """Let the engine go on until now."""
        while self._running and self._running[0][0] <= now_ms:
            ended, _, token = heapq.heappop(self._running)
            set_clock(self.broker, START_MS + ended)
            self.broker.ack(token, status="succeeded")
            self._fill(ended)
        set_clock(self.broker, START_MS + now_ms)

    def fail_one(self) -> None:
        """Let one that runs come back for long."""
        _, _, token = self._running.pop()
        assert self.broker.release(token, backoff=Backoff(3_600.0, 3_600.0))

    def lose_what_runs(self) -> list[Token]:
        """Let the worker die that runs it all, beside one that goes on."""
        lost, self._running = [token for _, _, token in self._running], []
        return lost

    def take_back(self, lost: list[Token]) -> None:
        """Let its leases end."""
        assert all(self.broker.release(token) for token in lost)

    def _fill(self, now_ms: int) -> None:
        free = SLOTS - len(self._running)
        if not free or self.is_stopped:
            return
        request = ClaimRequest((REALTIME, STANDARD), Credit(free, 10**9), free, "w", 600.0, TIERS)
        for claimed in self.broker.claim(request).jobs:
            job_id = claimed.token.job_id
            heapq.heappush(self._running, (now_ms + SERVICE_MS, job_id, claimed.token))
            if claimed.queue == STANDARD:
                self.waits[job_id] = now_ms - self.came[job_id]


def _asked(job_id: UUID, queue: str, tenant: str) -> Asked:
    terms = QueueTerms(
        name=queue,
        caps=QueueCaps(1 << 30),
        max_wait_ms=None if queue == REALTIME else MAX_WAIT_MS,
        slots=SLOTS,
        prompt_ms=4.0,
        output_ms=4.0,
        expected_tokens=100,
        line=(REALTIME,) if queue == REALTIME else (STANDARD, LONG),
        before=() if queue == REALTIME else (Weightier(4.0, (REALTIME,)),),
        others=(STANDARD, LONG) if queue == REALTIME else (),
    )
    return Asked(
        tenant=tenant,
        owner=f"key=sk-{tenant}",
        ticket=str(job_id),
        queues=[terms],
        jobs=[Wanted(job_id, queue, 100, 100, 9)],
    )


def _arrivals(queue: str, load: float, until_ms: int) -> list[tuple[int, str]]:
    chance, at, found = random.Random(queue), 0.0, []
    while (at := at + chance.expovariate(load * PER_MS)) < until_ms:
        found.append((int(at), queue))
    return found


@pytest.fixture
def engine(valkey: str) -> Iterator[Engine]:
    client: Any = broker_module.connect(valkey)
    yield Engine(Broker(client, prefix=f"{{waits-{secrets.token_hex(6)}}}:"))
    client.close()


@pytest.fixture
def overloaded(engine: Engine) -> Engine:
    """A fifth of the engine is left to half as much again, for a minute; nobody asks again."""
    engine.run(_arrivals(REALTIME, 0.8, ALL_MS) + _arrivals(STANDARD, 0.3, ALL_MS))
    return engine


def test_what_is_let_in_begins_in_time_though_others_go_before_it(overloaded: Engine) -> None:
    in_time = [wait <= 1.1 * MAX_WAIT_MS for wait in overloaded.waits.values()]
    assert sum(in_time) / len(in_time) >= 0.75


def test_those_who_come_back_make_few_late(engine: Engine) -> None:
    """As many as leave are told to come, and are let in; at times fewer leave."""
    engine.obeyed = True
    engine.run(_arrivals(REALTIME, 0.5, ALL_MS) + _arrivals(STANDARD, 1.0, ALL_MS))
    in_time = [wait <= 1.1 * MAX_WAIT_MS for wait in engine.waits.values()]
    assert len(engine.refused) > 300
    assert sum(in_time) / len(in_time) >= 0.65


def test_what_the_others_leave_is_used_all_the_same(overloaded: Engine) -> None:
    left = ALL_MS * PER_MS - len(_arrivals(REALTIME, 0.8, ALL_MS))
    assert len(overloaded.waits) >= 0.85 * left


def test_a_moment_in_which_nothing_began_is_no_measure(engine: Engine) -> None:
    """As while an engine loads, or the queue is paused: what waits goes by what it will take."""
    engine.run(_arrivals(STANDARD, 1.0, 10_000))
    engine.is_stopped = True
    few = [(at, STANDARD) for at in range(10_100, 30_000, 2_000)]
    engine.run(few)
    assert not [at for at, _ in engine.refused if at > 10_000]
    engine.is_stopped = False
    engine.run([(at, STANDARD) for at in range(30_000, 40_000, 500)])
    assert not [at for at, _ in engine.refused if at > 10_000]


def test_a_job_that_is_kept_for_later_is_no_measure(engine: Engine) -> None:
    arrivals = _arrivals(STANDARD, 0.9, 30_000)
    engine.run(arrivals[:10])
    engine.fail_one()
    engine.run(arrivals[10:])
    assert sum(wait > 0 for wait in engine.waits.values()) > 50
    assert not engine.refused


def test_nobody_is_refused_for_what_another_tenant_has_waiting(engine: Engine) -> None:
    as_many_as_may_wait = SLOTS + int(MAX_WAIT_MS * PER_MS)
    engine.run([(0, STANDARD)] * as_many_as_may_wait, others=[(1, STANDARD), (2, STANDARD)])
    assert not engine.refused
    engine.run([(3, STANDARD)])
    assert engine.refused == [(3, "ann")]


def test_nor_for_those_of_another_who_were_told_to_come_back(engine: Engine) -> None:
    """Refused ones keep places in the line, and do not come: they are so many that others would wait too long."""
    one_a_second = [(at, STANDARD) for at in range(500, ALL_MS, 1_000)]
    engine.run(_arrivals(STANDARD, 2.0, ALL_MS), others=one_a_second)
    assert len([tenant for _, tenant in engine.refused if tenant == "ann"]) > 400
    assert not [tenant for _, tenant in engine.refused if tenant == "bob"]


def test_jobs_that_come_back_after_a_crash_are_no_measure(engine: Engine) -> None:
    """They came longer ago than the max wait, and are claimed as soon as a slot is free."""
    arrivals = _arrivals(STANDARD, 0.9, 30_000)
    engine.run([each for each in arrivals if each[0] < 10_000])
    lost = engine.lose_what_runs()
    engine.run([each for each in arrivals if 10_000 <= each[0] < 16_000])
    engine.take_back(lost)
    engine.run([each for each in arrivals if each[0] >= 16_000])
    assert not engine.refused


def test_nobody_is_refused_for_a_weightier_tier_that_gives_it_its_share(engine: Engine) -> None:
    one_a_second = [(at, STANDARD) for at in range(500, 30_000, 1_000)]
    engine.run(_arrivals(REALTIME, 2.0, 30_000), others=one_a_second)
    assert not engine.refused
    assert max(engine.waits.values()) <= MAX_WAIT_MS


def test_nor_for_another_length_in_a_queue_that_has_never_had_a_job(engine: Engine) -> None:
    as_many_as_may_wait = SLOTS + int(MAX_WAIT_MS * PER_MS)
    engine.run([(0, STANDARD)] * as_many_as_may_wait, others=[(1, LONG)])
    assert not engine.refused
