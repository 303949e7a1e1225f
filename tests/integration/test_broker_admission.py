"""Admission's script decides as the pure code does, and what it counts is what there is, after any history."""

import secrets
from struct import iter_unpack
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings

from inference import broker as broker_module
from inference.admission.terms import Asked, QueueTerms, Reason, Wanted
from inference.broker import Bounds, Broker, Claimed, ClaimRequest, Credit, Entry, TierTerms
from inference.capacity import Weightier
from tests.integration import scripts_by_clock
from tests.integration.admission_histories import histories
from tests.integration.admission_ledger import (
    OF_TIER,
    QUEUES,
    TENANTS,
    Ask,
    Held,
    Ledger,
    Pass,
    Step,
    Verb,
)
from tests.integration.scripts_by_clock import START_MS, set_clock

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests

RATES: Final = {Reason.REQUESTS_PER_SECOND, Reason.REQUESTS_PER_MINUTE, Reason.TOKENS_PER_MINUTE}


class Both:
    """The broker and the ledger side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client: Any = broker.client
        self.ledger = Ledger(broker, START_MS)
        self.claims: dict[UUID, Claimed] = {}

    def apply(self, step: Step) -> None:
        match step:
            case Ask():
                self.ask(step)
            case Verb():
                getattr(self, step.name)(step)
            case Pass():
                self.ledger.now_ms += step.ms
        set_clock(self.broker, self.ledger.now_ms)
        self.compare()

    def ask(self, step: Ask) -> None:
        ids = [UUID(int=step.first + i) for i in range(len(step.jobs))]
        if any(
            job_id in held
            for job_id in ids
            for held in (self.ledger.waiting, self.ledger.leased, self.ledger.reserved, self.ledger.spilled)
        ):
            return
        asked = asked_of(step, ids)
        self.broker.due(lease_seconds=60)  # lapses in all queues, as each worker has it done every second
        expected, held, spilled = self.ledger.ask(asked)
        answer = self.broker.admit(asked)
        found = answer.refusal
        assert (found and found.reason) == (expected and expected.reason)
        if found and expected:
            assert (found.name, found.limit, found.value, found.asked) == (
                expected.name, expected.limit, expected.value, expected.asked,
            )  # fmt: skip
            if found.reason in RATES:
                assert found.retry_ms == expected.retry_ms
        assert answer.held == held
        assert answer.spilled == spilled
        assert (answer.of_key, answer.of_tenant) == self.ledger.usages(asked)

    def publish(self, step: Verb) -> None:
        """Spilled ones too: their rows were moved by one that died."""
        job_id = chosen({**self.ledger.reserved, **self.ledger.spilled}, step)
        if held := self.ledger.reserved.pop(job_id, None) or self.ledger.spilled.pop(job_id, None):
            if held.ends_ms <= self.ledger.now_ms and not held.is_spilled:
                self.broker.due(lease_seconds=60)
                held.admitted_ms, held.is_on_hold = None, False
            held.published_ms = self.ledger.now_ms
            self.ledger.waiting[job_id] = held
            assert self.broker.publish([entry_of(job_id, held)]) == [True]

    def withdraw(self, step: Verb) -> None:
        job_id = chosen({**self.ledger.reserved, **self.ledger.spilled}, step)
        if held := self.ledger.reserved.get(job_id) or self.ledger.spilled.get(job_id):
            if held.ends_ms <= self.ledger.now_ms and not held.is_spilled:
                self.broker.due(lease_seconds=60)
                held.admitted_ms = None
            self.broker.withdraw(held.asked.owner, [job_id])
            self.ledger.withdraw(job_id)

    def feed(self, step: Verb) -> None:
        queue, bounds = QUEUES[0], Bounds(1 + step.number % 3, 1000, 200, 400)
        self.ledger.lapse()
        ids = [job_id for job_id, held in self.ledger.spilled.items() if held.queue == queue]
        got = self.broker.feed(queue, bounds, QUEUES, ids)
        assert got == self.ledger.feed(queue, bounds)

    def claim(self, step: Verb) -> None:
        tiers = {"realtime": TierTerms(400.0), "bulk": TierTerms(1.0)}
        request = ClaimRequest(QUEUES, Credit(1 + step.number % 3, 10**9), 3, "w", 60.0, tiers)
        for claimed in self.broker.claim(request).jobs:
            self.claims[claimed.token.job_id] = claimed
            self.ledger.claim(claimed.token.job_id)

    def ack(self, step: Verb) -> None:
        job_id = chosen(self.ledger.leased, step)
        if held := self.ledger.leased.pop(job_id, None):
            assert self.broker.ack(self.claims.pop(job_id).token, status="succeeded", tokens=step.tokens)
            self.ledger.settle(held, step.tokens)

    def release(self, step: Verb) -> None:
        job_id = chosen(self.ledger.leased, step)
        if held := self.ledger.leased.pop(job_id, None):
            assert self.broker.release(self.claims.pop(job_id).token)
            self.ledger.come_back(job_id, held)

    def cancel(self, step: Verb) -> None:
        job_id = chosen({**self.ledger.waiting, **self.ledger.spilled}, step)
        if held := self.ledger.waiting.pop(job_id, None):
            assert self.broker.cancel(job_id) == "queued"
            self.ledger.settle(held, 0)
        if held := self.ledger.spilled.pop(job_id, None):
            assert self.broker.cancel(job_id) == "spilled"
            self.ledger.settle(held, 0)

    def discard(self, step: Verb) -> None:
        held_ids = (self.ledger.reserved, self.ledger.spilled, self.ledger.waiting, self.ledger.leased)
        job_id = chosen({i: held for group in held_ids for i, held in group.items()}, step)
        self.broker.discard([job_id])
        self.ledger.reserved.pop(job_id, None)
        self.ledger.spilled.pop(job_id, None)
        self.ledger.leased.pop(job_id, None)
        self.claims.pop(job_id, None)
        if held := self.ledger.waiting.pop(job_id, None):
            self.ledger.settle(held, 0)

    def compare(self) -> None:
        """Every counter is the sum over what is there; nothing is counted that is not."""
        self.broker.due(lease_seconds=60)
        live = {i: h for i, h in self.ledger.reserved.items() if h.ends_ms > self.ledger.now_ms}
        lapsed = {i: h for i, h in self.ledger.reserved.items() if i not in live and h.is_spilled}
        spilled = {**self.ledger.spilled, **lapsed}
        for queue in QUEUES:
            found = self.client.zrange(f"{self.broker.prefix}spilled:{queue}", 0, -1)
            assert set(found) == {i.bytes for i, h in spilled.items() if h.queue == queue}
        waiting = [*live.values(), *self.ledger.waiting.values()]
        for name, of in (("tokens", "tokens"), ("bytes", "bytes"), ("work", "work")):
            sums = {q: sum(getattr(h, of) for h in waiting if h.queue == q) for q in QUEUES}
            stored = self.client.hgetall(f"{self.broker.prefix}{name}")
            assert {q.decode(): int(n) for q, n in stored.items()} == {q: n for q, n in sums.items() if n}
        for tenant in TENANTS:
            everything = {**live, **spilled, **self.ledger.waiting, **self.ledger.leased}
            own = {i.bytes for i, h in everything.items() if h.asked.tenant == tenant}
            assert set(self.client.zrange(f"{self.broker.prefix}jobs:{tenant}", 0, -1)) == own
        runs = {f"{h.asked.tenant}\n".encode() + i.bytes for i, h in self.ledger.leased.items()}
        assert set(self.client.zrange(f"{self.broker.prefix}running", 0, -1)) == runs
        for queue in QUEUES:
            on_hold = {
                i.bytes for i, h in (live | self.ledger.waiting).items() if h.queue == queue and h.is_on_hold
            }
            assert self.client.smembers(f"{self.broker.prefix}hold:{queue}") == on_hold
        self.compare_windows()

    def compare_windows(self) -> None:
        for name, window in self.ledger.windows.items():
            stored = self.client.get(f"{self.broker.prefix}{name}") or b""
            size, now = window.size, self.ledger.now_ms
            found = [b for b in iter_unpack("<ddd", stored) if b[0] >= now // size.width_ms - size.count]
            assert [b for b in found if b[1:] != (0, 0)] == [
                (b.at, b.requests, b.tokens) for b in window.live(now) if (b.requests, b.tokens) != (0, 0)
            ]


def chosen(held: dict[UUID, Held], step: Verb) -> UUID:
    """One of those that there are, so that a verb mostly finds what it is for; none has the id of all bits."""
    return sorted(held)[step.number % len(held)] if held else UUID(int=2**128 - 1)


def asked_of(step: Ask, ids: list[UUID]) -> Asked:
    jobs = [
        Wanted(i, QUEUES[q], prompt, most, size) for i, (q, prompt, most, size) in zip(ids, step.jobs, strict=True)
    ]
    names = list(dict.fromkeys(job.queue for job in jobs))
    terms = [
        QueueTerms(
            name=name,
            caps=step.caps,
            max_wait_ms=step.max_wait_ms,
            slots=2,
            own_slots=step.own_slots,
            prompt_ms=2.0,
            output_ms=10.0,
            expected_tokens=100,
            model_bytes=step.model_bytes,
            held_jobs=step.held_jobs,
            may_spill=step.may_spill,
            line=OF_TIER["bulk" if ".bulk." in name else "realtime"],
            before=(Weightier((1.0, 4.0)[step.first % 2], OF_TIER["realtime"]),) if ".bulk." in name else (),
            others=() if ".bulk." in name else OF_TIER["bulk"],
        )
        for name in names
    ]
    return Asked(
        tenant=step.tenant,
        owner=f"key=sk-{step.tenant}",
        ticket=f"key=sk-{step.tenant}:{step.first % 2}",
        key=step.key,
        limits=step.limits,
        queues=terms,
        jobs=jobs,
    )


def entry_of(job_id: UUID, held: Held) -> Entry:
    return Entry(
        job_id=job_id,
        queue=held.queue,
        tenant=held.asked.tenant,
        prompt_tokens=held.prompt,
        expected_tokens=held.tokens - held.prompt,
        estimate=held.work / 1000,
        request_bytes=held.bytes,
    )


@pytest.mark.once
@settings(max_examples=45)
@given(history=histories())
def test_the_script_and_the_pure_code_decide_the_same_and_nothing_leaks(valkey: str, history: list[Step]) -> None:
    live_through(valkey, history)


@pytest.mark.once
@settings(max_examples=40)
@given(history=histories(spills=True))
def test_so_it_is_with_jobs_that_spill(valkey: str, history: list[Step]) -> None:
    live_through(valkey, history)


def live_through(valkey: str, history: list[Step]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{admit-{secrets.token_hex(6)}}}:"))
    client.set(f"{both.broker.prefix}clock", START_MS)
    for step in history:
        both.apply(step)
    client.close()
