"""The Lua claim makes the choices of `inference.scheduling`, on any history."""

import secrets
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference import broker as broker_module
from inference import scheduling
from inference.broker import Broker, Claimed, ClaimRequest, Credit, Entry, TierTerms

MODEL = "m-1.5/x"
TIERS = ("realtime", "standard", "bulk", "zeal")
TENANTS = ("ann", "bob", "cy", "b-2")
LENGTHS = ("short", "medium", "long")
TIER_WEIGHTS = ({"realtime": 400.0, "standard": 100.0, "bulk": 1.0, "zeal": 100.0}, {"bulk": 3.0, "realtime": 0.7})


@dataclass(frozen=True)
class Publish:
    number: int
    tier: str
    tenant: str
    length: str
    arrival_ms: int
    estimate: float
    tokens: int


@dataclass(frozen=True)
class Claim:
    queues: frozenset[tuple[str, str]]
    jobs: int
    kv_tokens: int
    weights: int


@dataclass(frozen=True)
class Touch:
    verb: str
    number: int


@dataclass(frozen=True)
class Weigh:
    tenant: str
    weight: float


Step = Publish | Claim | Touch | Weigh


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """Few tiers, tenants and kinds of worker at a time, so that queues run empty and fill again."""
    tiers = draw(st.lists(st.sampled_from(TIERS), min_size=1, max_size=3, unique=True))
    tenants = draw(st.lists(st.sampled_from(TENANTS), min_size=1, max_size=3, unique=True))
    lengths = draw(st.lists(st.sampled_from(LENGTHS), min_size=1, unique=True))
    queues = st.tuples(st.sampled_from(tiers), st.sampled_from(lengths))
    everything = frozenset((t, n) for t in tiers for n in lengths)
    of_one_length = st.sampled_from(lengths).map(lambda length: frozenset((t, length) for t in tiers))
    fleets = st.just(everything) | of_one_length | st.frozensets(queues, min_size=1)
    fleet = st.sampled_from(draw(st.lists(fleets, min_size=1, max_size=4)))
    numbers = st.integers(0, 40)
    arrivals = st.sampled_from((1_700_000_000_000, 1_700_000_000_500, 1_700_000_001_000, 1_700_000_100_000))
    estimates = st.sampled_from((0.0, 0.5, 1.0, 10.25)) | st.floats(0.001, 500)
    publish = st.builds(
        Publish,
        *(numbers, st.sampled_from(tiers), st.sampled_from(tenants), st.sampled_from(lengths)),
        *(arrivals, estimates, st.sampled_from((1, 100, 3000))),
    )
    claim = st.builds(
        Claim, fleet, st.integers(0, 4), st.sampled_from((50, 3500, 10**6, 10**6)), st.integers(0, 1)
    )
    touch = st.builds(Touch, st.sampled_from(("ack", "ack", "release", "cancel")), numbers)
    weigh = st.builds(Weigh, st.sampled_from(tenants), st.sampled_from((1.0, 0.3, 7.0)))
    step = st.one_of(publish, publish, claim, claim, claim, touch, weigh)
    return draw(st.lists(step, min_size=10, max_size=120))


class Both:
    """The pure policy and the broker side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.policy = scheduling.FairQueue()
        self.held: dict[UUID, Claimed] = {}

    def apply(self, step: Step) -> None:
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
        self.compare_passes()

    def compare_passes(self) -> None:
        """Passes are never observed from outside, but a wrong one shows in the order only much later."""
        stored = self.broker.client.hgetall(f"{self.broker.prefix}tiers:{MODEL}")
        for tier, expected in self.policy.tier_passes().items():
            assert float(stored.get(tier.encode(), 0)) == expected
            passes = self.broker.client.hgetall(f"{self.broker.prefix}pass:{MODEL}:{tier}")
            for tenant, of_tenant in self.policy.tenant_passes(tier).items():
                assert float(passes.get(tenant.encode(), 0)) == of_tenant

    def publish(self, step: Publish) -> None:
        job_id = UUID(int=step.number)
        entry = Entry(
            job_id=job_id,
            queue=f"{MODEL}.{step.tier}.{step.length}",
            tenant=step.tenant,
            prompt_tokens=step.tokens - 1,
            expected_tokens=1,
            estimate=step.estimate,
            arrival_ms=step.arrival_ms,
            tenant_weight=self.policy.weights.get(step.tenant, 1.0),
        )
        waiting = scheduling.Waiting(
            job_id.bytes, step.tier, step.tenant, step.length, step.arrival_ms, step.estimate, step.tokens
        )
        assert self.broker.publish([entry]) == [self.policy.publish(waiting)]

    def claim(self, step: Claim) -> None:
        weights = TIER_WEIGHTS[step.weights]
        tiers = sorted({tier for tier, _ in step.queues})
        served = [
            scheduling.Served(t, weights.get(t, 1.0), frozenset(n for tier, n in step.queues if tier == t))
            for t in tiers
        ]
        request = ClaimRequest(
            tuple(f"{MODEL}.{tier}.{length}" for tier, length in step.queues),
            credit=Credit(step.jobs, step.kv_tokens),
            limit=10,
            worker="w",
            lease_seconds=60,
            tiers={tier: TierTerms(weight) for tier, weight in weights.items()},
        )
        claimed = self.broker.claim(request).jobs
        expected = self.policy.claim(served, scheduling.Room(step.jobs, step.kv_tokens))
        assert [c.token.job_id.bytes for c in claimed] == expected
        self.held |= {c.token.job_id: c for c in claimed}

    def touch(self, step: Touch) -> None:
        job_id = UUID(int=step.number)
        held = self.held.get(job_id)
        if step.verb == "cancel" and not held:
            assert (self.broker.cancel(job_id) == "queued") == self.policy.cancel(job_id.bytes)
        elif held and step.verb == "ack":
            assert self.broker.ack(held.token, status="succeeded") == self.policy.ack(job_id.bytes)
            del self.held[job_id]
        elif held and step.verb == "release":
            assert self.broker.release(held.token) == self.policy.release(job_id.bytes)
            del self.held[job_id]

    def drain(self) -> None:
        everything = frozenset((t, n) for t in TIERS for n in LENGTHS)
        for _ in range(41):
            self.claim(Claim(everything, 1, 10**6, 0))


@pytest.mark.timeout(300)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories())
def test_lua_and_python_claim_the_same_jobs_on_any_history(valkey: str, history: list[Step]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{order-{secrets.token_hex(6)}}}:"))
    for step in history:
        both.apply(step)
    both.drain()
    client.close()
