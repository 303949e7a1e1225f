"""The Lua claim makes the choices of `inference.scheduling`, on any history."""

import secrets
from dataclasses import dataclass
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference import broker as broker_module
from inference import scheduling
from inference.broker import Broker, Claimed, Credit, Entry

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


numbers = st.integers(0, 30)
publishes = st.builds(
    Publish,
    numbers,
    st.sampled_from(TIERS),
    st.sampled_from(TENANTS),
    st.sampled_from(LENGTHS),
    st.sampled_from((1_700_000_000_000, 1_700_000_000_500, 1_700_000_001_000, 1_700_000_100_000)),
    st.sampled_from((0.0, 0.5, 1.0, 10.25)) | st.floats(0.001, 500),
    st.sampled_from((1, 100, 3000)),
)
queue_sets = st.sampled_from(
    [frozenset((t, n) for t in TIERS for n in LENGTHS), frozenset((t, "short") for t in TIERS)]
) | st.frozensets(st.tuples(st.sampled_from(TIERS), st.sampled_from(LENGTHS)), min_size=1)
claims = st.builds(Claim, queue_sets, st.integers(0, 4), st.sampled_from((50, 3500, 10**6)), st.integers(0, 1))
touches = st.builds(Touch, st.sampled_from(("ack", "release", "cancel")), numbers)
weighs = st.builds(Weigh, st.sampled_from(TENANTS), st.sampled_from((1.0, 0.3, 7.0)))
histories = st.lists(publishes | publishes | publishes | claims | claims | touches | weighs, max_size=80)


class Both:
    """The pure policy and the broker side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.policy = scheduling.FairQueue()
        self.held: dict[UUID, Claimed] = {}

    def apply(self, step: Publish | Claim | Touch | Weigh) -> None:
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
        claimed = self.broker.claim(
            [f"{MODEL}.{tier}.{length}" for tier, length in step.queues],
            credit=Credit(step.jobs, step.kv_tokens),
            limit=10,
            worker="w",
            lease_seconds=60,
            tier_weights=weights,
        )
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
        for _ in range(31):
            self.claim(Claim(everything, 1, 10**6, 0))


@pytest.mark.timeout(300)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories)
def test_lua_and_python_claim_the_same_jobs_on_any_history(valkey: str, history: list[Publish | Claim]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{order-{secrets.token_hex(6)}}}:"))
    for step in history:
        both.apply(step)
    both.drain()
    client.close()
