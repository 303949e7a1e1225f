"""Acceptance tests talk to a running stack, as its users do."""

from collections.abc import Iterator

import pytest

from tests.acceptance import fleet, stacks
from tests.acceptance.faults.places import SLOW
from tests.acceptance.stacks import Stack
from tests.waiting import until

MEND_SECONDS = 60.0


@pytest.fixture(scope="session", autouse=True)
def no_late_traceback() -> Iterator[None]:
    """Fail, after the last test, what shared stacks logged as they stopped."""
    yield
    assert stacks.new_tracebacks() == []


@pytest.fixture(autouse=True)
def no_traceback(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test whose stack logged a traceback: a bug, or an outage that is not told in a line of its own.

    One that expects some says so and why: `@pytest.mark.tracebacks("…")`.
    """
    yield
    found = stacks.new_tracebacks()
    if found and not request.node.get_closest_marker("tracebacks"):
        pytest.fail(f"{len(found)} tracebacks in the stack's log:\n" + "\n\n".join(found[:3]), pytrace=False)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One stack on the simulated engine, shared by all tests that leave it as they found it."""
    with stacks.running() as running:
        yield running


@pytest.fixture(scope="session")
def workerless_stack() -> Iterator[Stack]:
    """One without an engine, for tests that let jobs wait and then start a worker of their own, or none."""
    with stacks.running("--workers", "0") as running:
        yield running


@pytest.fixture
def workerless(workerless_stack: Stack) -> Iterator[Stack]:
    """The same, of which a test leaves no job to be done."""
    yield workerless_stack
    fleet.cancel(workerless_stack, fleet.unfinished(workerless_stack))


@pytest.fixture(scope="session")
def slow_stack() -> Iterator[Stack]:
    """One of two slow workers, for what takes its time and for faults: each test finds that it mends itself."""
    with stacks.running("--workers", "2", env=SLOW) as stack:
        yield stack


@pytest.fixture
def broken(slow_stack: Stack) -> Iterator[Stack]:
    """The slow one, mended after the test before; what a test that failed left to be done is cancelled."""
    until(lambda: fleet.is_whole(slow_stack), seconds=MEND_SECONDS, what="the stack has mended itself")
    yield slow_stack
    fleet.cancel(slow_stack, fleet.unfinished(slow_stack))
