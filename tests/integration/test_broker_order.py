"""The Lua claim makes the choices of `inference.scheduling`, on any history and within any guards."""

import secrets
from struct import unpack_from
from typing import Final
from uuid import UUID

import pytest
from hypothesis import given, settings

from inference import broker as broker_module
from inference import scheduling
from inference.broker import Broker, Cap, Claimed, ClaimRequest, Credit, Entry, TierTerms
from tests.integration import scripts_by_clock
from tests.integration.order_histories import (
    AWAY,
    BURST,
    CROWD,
    EMPTYING,
    GATHERED,
    LENGTHS,
    OPENED,
    PAUSED,
    STALE_SET,
    TIERS,
    Claim,
    Pass,
    Publish,
    Queue,
    Step,
    Touch,
    Weigh,
    histories,
)
from tests.integration.scripts_by_clock import START_MS, set_clock

MODEL: Final = "m-1.5/x"

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests


class Both:
    """The pure policy and the broker side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.policy = scheduling.FairQueue()
        self.held: dict[UUID, Claimed] = {}
        self.now_ms = START_MS

    def apply(self, step: Step) -> None:
        set_clock(self.broker, self.now_ms)
        match step:
            case Publish():
                self.publish(step)
            case Claim():
                self.claim(step)
            case Touch():
                self.touch(step)
            case Weigh():
                self.policy.set_tenant_weight(step.tenant, step.weight)
                self.broker.set_tenant_weight(step.tenant, step.weight)
            case Pass():
                self.now_ms += step.ms
        self.compare_passes()

    def compare_passes(self) -> None:
        """Passes are never observed from outside, but a wrong one shows in the order only much later."""
        stored = self.broker.client.hgetall(f"{self.broker.prefix}tiers:{MODEL}")
        for tier, expected in self.policy.tier_passes().items():
            kept = stored.get(tier.encode(), bytes(8))
            assert isinstance(kept, bytes)
            assert unpack_from("<d", kept) == (expected,)
            passes = self.broker.client.hgetall(f"{self.broker.prefix}pass:{MODEL}:{tier}")
            for tenant, of_tenant in self.policy.tenant_passes(tier).items():
                assert float(passes.get(tenant.encode(), 0)) == of_tenant

    def publish(self, step: Publish) -> None:
        job_id, arrival_ms = UUID(int=step.number), self.now_ms - step.age_ms
        entry = Entry(
            job_id=job_id,
            queue=queue_name((step.tier, step.length)),
            tenant=step.tenant,
            prompt_tokens=step.tokens - 1,
            expected_tokens=1,
            estimate=step.estimate,
            arrival_ms=arrival_ms,
            tenant_weight=self.policy.weights.get(step.tenant, 1.0),
            alone=step.alone,
        )
        waiting = scheduling.Waiting(
            *(job_id.bytes, step.tier, step.tenant, step.length, arrival_ms),
            *(step.estimate, step.tokens, step.alone),
        )
        assert self.broker.publish([entry]) == [self.policy.publish(waiting, self.now_ms)]

    def claim(self, step: Claim) -> list[UUID]:
        request = ClaimRequest(
            tuple(map(queue_name, step.queues)),
            credit=step.credit,
            limit=step.limit,
            worker=step.worker,
            lease_seconds=60,
            tiers=step.tiers,
            paused=frozenset(map(queue_name, step.paused)),
            larger=frozenset(map(queue_name, step.larger)),
            whole_tokens=step.whole_tokens,
            caps=tuple(Cap(tuple(map(queue_name, queues)), jobs) for queues, jobs in step.caps),
            load=step.load,
        )
        ask = scheduling.Ask(
            queues=step.queues,
            credit=step.credit,
            limit=step.limit,
            tiers=step.tiers,
            paused=step.paused,
            larger=step.larger,
            whole_tokens=step.whole_tokens,
            caps=step.caps,
            load=step.load,
            worker=step.worker,
            now_ms=self.now_ms,
        )
        expected, claims = self.policy.claim(ask), self.broker.claim(request)
        assert [c.token.job_id.bytes for c in claims.jobs] == expected.jobs
        assert [c.token.job_id.bytes for c in claims.jobs if c.is_parked] == [j for j in [expected.parked] if j]
        assert claims.again_ms == expected.again_ms
        assert any(c.is_alone for c in claims.jobs) == expected.is_alone
        self.held |= {c.token.job_id: c for c in claims.jobs}
        return [c.token.job_id for c in claims.jobs]

    def touch(self, step: Touch) -> None:
        job_id = UUID(int=step.number)
        held = self.held.get(job_id)
        if step.verb == "cancel" and not held:
            assert (self.broker.cancel(job_id) == "queued") == self.policy.cancel(job_id.bytes)
        elif held and step.verb == "ack":
            was_ours = self.broker.ack(held.token, status="succeeded", used=step.used)
            assert was_ours == self.policy.ack(job_id.bytes, step.used)
            del self.held[job_id]
        elif held and step.verb == "release":
            was_ours = self.broker.release(held.token, alone=step.alone)
            assert was_ours == self.policy.release(job_id.bytes, self.now_ms, alone=step.alone)
            del self.held[job_id]

    def drain(self) -> None:
        """What is left comes out one by one, in the same order."""
        everything = frozenset((t, n) for t in TIERS for n in LENGTHS)
        while self.claim(Claim("w1", everything, Credit(1, 10**6), {"realtime": TierTerms(3.0)})):
            self.compare_passes()
        for held in list(self.held.values()):
            self.apply(Touch("ack", held.token.job_id.int, None))
        while taken := self.claim(Claim("w1", everything, Credit(1, 10**6, alone_ms=0), {})):
            self.apply(Touch("ack", taken[0].int, None))


def queue_name(queue: Queue) -> str:
    return f"{MODEL}.{queue[0]}.{queue[1]}"


def compare(valkey: str, history: list[Step]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{order-{secrets.token_hex(6)}}}:"))
    for step in history:
        both.apply(step)
    both.drain()
    client.close()


@settings(max_examples=50)
@given(history=histories(guarded=False))
def test_lua_and_python_claim_the_same_jobs_on_any_history(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)


@pytest.mark.parametrize("history", [AWAY, STALE_SET, PAUSED, OPENED, EMPTYING, GATHERED, BURST, CROWD])
def test_they_do_so_where_random_histories_seldom_lead(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)


@settings(max_examples=100)
@given(history=histories(guarded=True))
def test_they_do_so_within_any_guards_and_among_several_workers(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)
