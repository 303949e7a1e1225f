"""Histories of a queue: random ones, and those where random ones seldom lead."""

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from inference.broker import Credit, Load, Room, TierTerms
from inference.guards import NO_LOAD, NO_ROOM

TIERS: Final = ("realtime", "standard", "bulk", "zeal")
TENANTS: Final = ("ann", "bob", "cy", "b-2")
LENGTHS: Final = ("short", "medium", "long")
WORKERS: Final = ("w1", "w2", "w3")
Queue = tuple[str, str]


@dataclass(frozen=True)
class Publish:
    number: int
    tier: str
    tenant: str
    length: str
    age_ms: int
    estimate: float
    tokens: int
    alone: bool = False


@dataclass(frozen=True)
class Claim:
    worker: str
    queues: frozenset[Queue]
    credit: Credit
    tiers: dict[str, TierTerms]
    paused: frozenset[Queue] = frozenset()
    larger: frozenset[Queue] = frozenset()
    whole_tokens: int = 10**6
    caps: tuple[tuple[frozenset[Queue], int], ...] = ()
    load: Load = NO_LOAD
    limit: int = 5


@dataclass(frozen=True)
class Touch:
    verb: str
    number: int
    used: float | None
    alone: bool = False


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


def _claims(queues: Any, fleet: Any, terms: Any, weights: Any, *, guarded: bool) -> st.SearchStrategy[Claim]:
    """Claims of workers; unguarded ones go by order and credit alone."""
    tokens = st.sampled_from((50, 3500, 10**6, 10**6))
    if not guarded:
        return st.builds(
            Claim, st.sampled_from(WORKERS), fleet, st.builds(Credit, st.integers(0, 4), tokens), weights
        )
    credit = st.builds(
        Credit,
        *(st.integers(0, 8), tokens, st.sampled_from((0, 0, 10)), st.just(NO_ROOM) | ROOMS, st.booleans()),
        st.sampled_from((None, 0, 400)),
    )
    caps = st.tuples(st.frozensets(queues, min_size=1), st.integers(0, 3))
    return st.builds(
        Claim,
        *(st.sampled_from(WORKERS), fleet, credit, terms),
        *(st.just(frozenset()) | st.frozensets(queues, max_size=2) for _ in range(2)),
        st.sampled_from((10**6, 2999)),
        st.lists(caps, max_size=2).map(tuple),
        st.builds(Load, st.integers(0, 5), st.sampled_from((0, 4, 8))),
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
        st.sampled_from((False, False, False, guarded)),
    )
    claim = _claims(queues, fleet, terms, weights, guarded=guarded)
    touch = st.builds(
        Touch,
        st.sampled_from(("ack", "ack", "release", "cancel")),
        numbers,
        st.none() | st.sampled_from((0.0, 700.0)),
        st.sampled_from((False, guarded)),
    )
    weigh = st.builds(Weigh, st.sampled_from(tenants), st.sampled_from((1.0, 0.3, 7.0)))
    passes = st.builds(Pass, st.sampled_from((1, 20, 30, 999, 1_200, 2_100, 11_000, 700_000)))
    step = st.one_of(publish, publish, claim, claim, claim, touch, weigh, passes)
    return draw(st.lists(step, min_size=10, max_size=120))


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
OPENED: Final = [
    *jobs(0, 20),
    *jobs(20, 9, tenant="bob", length="long"),
    takes(5, paused=some("long")),
    *jobs(30, 2, tenant="bob"),
    takes(5, paused=some("long")),
]
_BOUND: Final = {"standard": TierTerms(100.0), "bulk": TierTerms(1.0, share=Room(4, 100))}
EMPTYING: Final = [
    Publish(0, "standard", "cy", "short", 0, 1.0, 10),
    Publish(1, "bulk", "ann", "long", 500, 1.0, 3000),
    *jobs(2, 20, "bulk", "bob"),
    *[
        step
        for ms in (0, 1_000, 1_100, 100)
        for step in (Pass(ms), Claim("w1", ALL, Credit(2, 10**5, may_park=True), _BOUND))
    ],
    Claim("w1", ALL, Credit(2, 10**5, may_park=True), _BOUND | {"bulk": TierTerms(1.0, share=Room(4, 10**6))}),
]
_GATHERING: Final = {"standard": TierTerms(100.0, gather_jobs=4, gather_seconds=5.0)}
GATHERED: Final = [
    *[Claim(worker, ALL, Credit(7, 10**6), _GATHERING, load=Load(1, 8)) for worker in ("w1", "w2")],
    *[step for n in range(4) for step in (Pass(1), *jobs(n, 1))],
    Claim("w1", ALL, Credit(7, 10**6), _GATHERING, load=Load(1, 8)),
    *jobs(4, 1, length="long"),
    Pass(30),
    *jobs(5, 1),
    *[Claim("w2", ALL, Credit(1, 10**6), _GATHERING, load=Load(7, 8)) for _ in range(4)],
    Pass(5_000),
    *[Claim("w2", ALL, Credit(1, 10**6), _GATHERING, load=Load(7, 8)) for _ in range(2)],
]
BURST: Final = [
    takes(8, worker="w1", load=Load(0, 8)),
    takes(8, worker="w2", load=Load(0, 8)),
    Pass(5),
    *jobs(0, 8),
    takes(8, worker="w1", load=Load(0, 8)),
    Pass(3),
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
_SOME_TOO_LARGE: Final = [
    Publish(n, "standard", f"t-{n % 23}", ("short", "long")[n % 2], 0, 1.0 + n % 3, 10**7 if n % 23 < 6 else 10)
    for n in range(90)
]
CROWD: Final = [
    *_SOME_TOO_LARGE,
    *[takes(20, limit=20) for _ in range(2)],
    *jobs(90, 3, tenant="t-21"),
    *[Touch("ack", n, 7.0) for n in range(20, 40)],
    *[takes(20, limit=20, caps=((some("short"), held),)) for held in (45, 50, 80)],
]
"""Claims that serve many tenants, some of them twice, and skip others."""
