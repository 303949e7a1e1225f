"""Acceptance tests talk to a running stack, as its users do."""

from collections.abc import Iterator

import pytest

from tests.acceptance import stacks
from tests.acceptance.stacks import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """One stack on the simulated engine, shared by all tests that leave it as they found it."""
    with stacks.running() as running:
        yield running
