"""Random histories of a broker, of which the ledger knows what comes of them."""

from typing import Any

from hypothesis import strategies as st

from inference.limits import KeyLimits, QueueCaps, TenantLimits
from tests.integration.admission_ledger import QUEUES, TENANTS, Ask, Pass, Step, Verb


def _maybe(*values: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.sampled_from(values)


def _jobs(queues: int) -> st.SearchStrategy[tuple[tuple[int, int, int, int], ...]]:
    sizes = (st.sampled_from((1, 50, 400)), st.sampled_from((1, 30, 500)), st.sampled_from((7, 90)))
    return st.lists(st.tuples(st.integers(0, queues - 1), *sizes), min_size=1, max_size=4).map(tuple)


@st.composite
def histories(draw: st.DrawFn, *, spills: bool = False) -> list[Step]:
    """A few kinds of limits at a time, so that one after the other is reached; in some, only queues have any."""
    holds, some_held, most_jobs = (
        draw(st.booleans()),
        st.sampled_from((0, 1, 3)),
        (1, 2) if spills else (2, 5, 100),
    )
    keys = st.builds(KeyLimits, _maybe(1, 4), _maybe(2, 8), _maybe(300, 2000))
    tenants = st.builds(TenantLimits, _maybe(3, 12), _maybe(500, 4000), _maybe(2, 6), _maybe(3, 9))
    if holds:
        keys, tenants, some_held = st.just(KeyLimits()), st.just(TenantLimits()), st.sampled_from((2, 4, 4))
    caps = st.builds(QueueCaps, st.sampled_from(most_jobs), _maybe(200, 2000), _maybe(100, 400))
    ask = st.builds(
        Ask,
        st.integers(0, 50),
        _jobs(1 if spills else len(QUEUES)),
        st.sampled_from(TENANTS),
        st.sampled_from(draw(st.lists(keys | st.just(KeyLimits()), min_size=1, max_size=2))),
        st.sampled_from(draw(st.lists(tenants | st.just(TenantLimits()), min_size=1, max_size=2))),
        st.sampled_from(draw(st.lists(caps | st.just(QueueCaps(1 if spills else 100)), min_size=1, max_size=2))),
        st.sampled_from(draw(st.lists(_maybe(0, 1000, 5000), min_size=1, max_size=2))),
        st.sampled_from(draw(st.lists(_maybe(200, 900), min_size=1, max_size=2))),
        _maybe(1),
        st.sampled_from(draw(st.lists(some_held, min_size=1, max_size=2))),
        st.sampled_from((False, spills, spills)),
    )
    names = (*["publish"] * 8, *["claim", "ack", "cancel"] * 2, "withdraw", "release", "discard")
    verb = st.builds(Verb, st.sampled_from(names + ("feed",) * 9 * spills), st.integers(0, 50), _maybe(0, 60, 700))
    passes = st.builds(Pass, st.sampled_from((1, 99, 900, 1_000, 1_000, 4_000, 4_000, 30_000, 61_000)))
    step: Any = st.one_of(ask, ask, ask, verb, verb, verb, passes)
    return draw(st.lists(step, min_size=30, max_size=60))
