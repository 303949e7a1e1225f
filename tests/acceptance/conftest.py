"""Acceptance tests talk to a running stack, as its users do."""

from collections.abc import Iterator

import pytest

from tests.acceptance import stacks
from tests.acceptance.stacks import Stack


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


@pytest.fixture(scope="module")
def bare() -> Iterator[Stack]:
    """One without an engine for one module, whose tests start workers of their own and leave no job."""
    with stacks.running("--workers", "0") as running:
        yield running


@pytest.fixture(scope="session")
def workerless() -> Iterator[Stack]:
    """One without an engine, for tests that let jobs wait and then start a worker of their own, or none."""
    with stacks.running("--workers", "0") as running:
        yield running
