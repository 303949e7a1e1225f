"""The Lua claim makes the choices of `inference.scheduling`, on any history and within any guards."""

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference import broker as broker_module
from inference import scheduling
from inference.broker import Broker, Cap, Claimed, ClaimRequest, Credit, Entry, Load, Room, TierTerms, scripts
from inference.guards import NO_LOAD, NO_ROOM

MODEL: Final = "m-1.5/x"
TIERS: Final = ("realtime", "standard", "bulk", "zeal")
TENANTS: Final = ("ann", "bob", "cy", "b-2")
LENGTHS: Final = ("short", "medium", "long")
WORKERS: Final = ("w1", "w2", "w3")
START_MS: Final = 1_700_000_000_000
Queue = tuple[str, str]

CLOCK: Final = "local function now_ms() return tonumber(call('GET', P .. 'clock')) end\n"


@pytest.fixture(scope="module", autouse=True)
def scripts_on_a_clock_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What waits for time to pass waits for the test's."""
    folder, original = tmp_path_factory.mktemp("scripts") / "lua", scripts.FOLDER
    shutil.copytree(original, folder)
    (folder / "clock.lua").write_text(CLOCK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scripts, "FOLDER", folder)
        scripts.get.cache_clear()
        yield
    scripts.get.cache_clear()


@dataclass(frozen=True)
class Publish:
    number: int
    tier: str
    tenant: str
    length: str
    age_ms: int
    estimate: float
    tokens: int


@dataclass(frozen=True)
class Claim:
    worker: str
    queues: frozenset[Queue]
    credit: Credit
    tiers: dict[str, TierTerms]
    paused: frozenset[Queue] = frozenset()
    caps: tuple[tuple[frozenset[Queue], int], ...] = ()
    load: Load = NO_LOAD


@dataclass(frozen=True)
class Touch:
    verb: str
    number: int
    used: float | None


@dataclass(frozen=True)
class Weigh:
    tenant: str
    weight: float


@dataclass(frozen=True)
class Pass:
    ms: int


Step = Publish | Claim | Touch | Weigh | Pass

ESTIMATES: Final = st.sampled_from((0.0, 0.5, 1.0, 10.25)) | st.floats(0.001, 500)
ROOMS: Final = st.builds(Room, st.integers(0, 3), st.sampled_from((0, 100, 3500, 10**6)))
TERMS: Final = st.builds(
    TierTerms,
    st.sampled_from((400.0, 100.0, 100.0, 1.0, 0.7)),
    st.booleans(),
    st.none() | ROOMS,
    st.sampled_from((0, 0, 2, 4)),
    st.sampled_from((0.05, 5.0)),
)


@st.composite
def histories(draw: st.DrawFn, *, guarded: bool) -> list[Step]:
    """Few tiers, tenants and kinds of worker at a time, so that queues run empty and fill again."""
    tiers = draw(st.lists(st.sampled_from(TIERS), min_size=1, max_size=3, unique=True))
    tenants = draw(st.lists(st.sampled_from(TENANTS), min_size=1, max_size=3, unique=True))
    lengths = draw(st.lists(st.sampled_from(LENGTHS), min_size=1, unique=True))
    queues = st.tuples(st.sampled_from(tiers), st.sampled_from(lengths))
    everything = frozenset((t, n) for t in tiers for n in lengths)
    of_one_length = st.sampled_from(lengths).map(lambda length: frozenset((t, length) for t in tiers))
    fleets = st.just(everything) | of_one_length | st.frozensets(queues, min_size=1)
    fleet = st.sampled_from(draw(st.lists(fleets, min_size=1, max_size=4)))
    terms = st.sampled_from(
        draw(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(tiers, TERMS)), min_size=1, max_size=3))
    )
    weights = st.fixed_dictionaries(
        {}, optional=dict.fromkeys(tiers, st.builds(TierTerms, st.sampled_from((400.0, 1.0))))
    )
    numbers = st.integers(0, 40)
    publish = st.builds(
        Publish,
        *(numbers, st.sampled_from(tiers), st.sampled_from(tenants), st.sampled_from(lengths)),
        *(st.sampled_from((0, 0, 500, 100_000)), ESTIMATES, st.sampled_from((1, 100, 3000))),
    )
    tokens = st.sampled_from((50, 3500, 10**6, 10**6))
    plain_claim = st.builds(
        Claim, st.sampled_from(WORKERS), fleet, st.builds(Credit, st.integers(0, 4), tokens), weights
    )
    credit = st.builds(
        Credit,
        *(st.integers(0, 8), tokens, st.sampled_from((0, 0, 10)), st.just(NO_ROOM) | ROOMS, st.booleans()),
    )
    caps = st.tuples(st.frozensets(queues, min_size=1), st.integers(0, 3))
    claim = st.builds(
        Claim,
        *(st.sampled_from(WORKERS), fleet, credit, terms),
        *(st.just(frozenset()) | st.frozensets(queues, max_size=2), st.lists(caps, max_size=2).map(tuple)),
        st.builds(Load, st.integers(0, 5), st.sampled_from((0, 4, 8))),
    )
    if not guarded:
        claim = plain_claim
    touch = st.builds(
        Touch,
        st.sampled_from(("ack", "ack", "release", "cancel")),
        numbers,
        st.none() | st.sampled_from((0.0, 700.0)),
    )
    weigh = st.builds(Weigh, st.sampled_from(tenants), st.sampled_from((1.0, 0.3, 7.0)))
    passes = st.builds(Pass, st.sampled_from((1, 20, 30, 999, 1_200, 2_100, 11_000, 700_000)))
    step = st.one_of(publish, publish, claim, claim, claim, touch, weigh, passes)
    return draw(st.lists(step, min_size=10, max_size=120))


class Both:
    """The pure policy and the broker side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.policy = scheduling.FairQueue()
        self.held: dict[UUID, Claimed] = {}
        self.now_ms = START_MS

    def apply(self, step: Step) -> None:
        self.broker.client.set(f"{self.broker.prefix}clock", self.now_ms)
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
            assert float(stored.get(tier.encode(), 0)) == expected
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
        )
        waiting = scheduling.Waiting(
            job_id.bytes, step.tier, step.tenant, step.length, arrival_ms, step.estimate, step.tokens
        )
        assert self.broker.publish([entry]) == [self.policy.publish(waiting, self.now_ms)]

    def claim(self, step: Claim) -> list[UUID]:
        request = ClaimRequest(
            tuple(map(queue_name, step.queues)),
            credit=step.credit,
            limit=5,
            worker=step.worker,
            lease_seconds=60,
            tiers=step.tiers,
            paused=frozenset(map(queue_name, step.paused)),
            caps=tuple(Cap(tuple(map(queue_name, queues)), jobs) for queues, jobs in step.caps),
            load=step.load,
        )
        ask = scheduling.Ask(
            queues=step.queues,
            credit=step.credit,
            limit=5,
            tiers=step.tiers,
            paused=step.paused,
            caps=step.caps,
            load=step.load,
            worker=step.worker,
            now_ms=self.now_ms,
        )
        expected, claims = self.policy.claim(ask), self.broker.claim(request)
        assert [c.token.job_id.bytes for c in claims.jobs] == expected.jobs
        assert [c.token.job_id.bytes for c in claims.jobs if c.is_parked] == [j for j in [expected.parked] if j]
        assert claims.again_ms == expected.again_ms
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
            assert self.broker.release(held.token) == self.policy.release(job_id.bytes, self.now_ms)
            del self.held[job_id]

    def drain(self) -> None:
        """What is left comes out one by one, in the same order."""
        everything = frozenset((t, n) for t in TIERS for n in LENGTHS)
        while self.claim(Claim("w1", everything, Credit(1, 10**6), {"realtime": TierTerms(3.0)})):
            self.compare_passes()


def queue_name(queue: Queue) -> str:
    return f"{MODEL}.{queue[0]}.{queue[1]}"


def compare(valkey: str, history: list[Step]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{order-{secrets.token_hex(6)}}}:"))
    for step in history:
        both.apply(step)
    both.drain()
    client.close()


@pytest.mark.timeout(300)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(guarded=False))
def test_lua_and_python_claim_the_same_jobs_on_any_history(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)


ALL: Final = frozenset((tier, length) for tier in ("realtime", "standard", "bulk") for length in ("short", "long"))
ONLINE: Final = frozenset(queue for queue in ALL if queue[0] != "bulk")
WEIGHTS: Final = {"realtime": TierTerms(400.0), "standard": TierTerms(100.0), "bulk": TierTerms(1.0)}


def jobs(first: int, count: int, tier: str = "standard", tenant: str = "ann", length: str = "short") -> list[Step]:
    return [Publish(first + n, tier, tenant, length, 0, 1.0, 10) for n in range(count)]


def takes(count: int, queues: frozenset[Queue] = ALL, **terms: Any) -> Claim:
    return Claim(terms.pop("worker", "w1"), queues, Credit(count, 10**6), WEIGHTS, **terms)


def some(*lengths: str) -> frozenset[Queue]:
    return frozenset(("standard", length) for length in lengths)


AWAY: Final = [
    *jobs(0, 10),
    *jobs(10, 20, "realtime"),
    *jobs(30, 5, "bulk"),
    takes(4),
    Pass(12_000),
    takes(5, ALL - ONLINE | {("realtime", "short")}),
    takes(4),
]
STALE_SET: Final = [
    *jobs(0, 20),
    *jobs(20, 9, tenant="bob", length="long"),
    takes(1, some("short", "long")),
    takes(4, some("short")),
    Pass(11_000),
    takes(3, some("short")),
    *jobs(30, 5, tenant="cy"),
    takes(5, some("short")),
]
PAUSED: Final = [
    *jobs(0, 20),
    *jobs(20, 9, tenant="bob", length="long"),
    takes(5, paused=some("long")),
    takes(5),
    *jobs(30, 2, tenant="bob"),
    takes(5, paused=some("long")),
    *jobs(33, 1, tenant="bob"),
    takes(3),
]
BURST: Final = [
    takes(1, worker="w1", load=Load(0, 8)),
    takes(1, worker="w2", load=Load(0, 8)),
    Pass(5),
    *jobs(0, 12),
    takes(8, worker="w1", load=Load(0, 8)),
    takes(4, worker="w1", load=Load(4, 8)),
    Pass(10),
    takes(4, worker="w1", load=Load(4, 8)),
    Pass(20),
    takes(4, worker="w1", load=Load(4, 8)),
    takes(8, worker="w2", load=Load(0, 8)),
    takes(4, worker="w1", load=Load(5, 8)),
    Pass(1_200),
    takes(4, worker="w1", load=Load(5, 8)),
]


@pytest.mark.parametrize("history", [AWAY, STALE_SET, PAUSED, BURST], ids=["away", "stale set", "paused", "burst"])
def test_they_do_so_where_random_histories_seldom_lead(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)


@pytest.mark.timeout(300)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(guarded=True))
def test_they_do_so_within_any_guards_and_among_several_workers(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)
