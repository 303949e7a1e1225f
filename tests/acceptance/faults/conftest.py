"""One stack of two slow workers for all faults: each test breaks it, and finds that it mends itself."""

from collections.abc import Iterator

import pytest

from tests.acceptance import fleet, stacks
from tests.acceptance.faults.places import SLOW
from tests.acceptance.stacks import Stack
from tests.waiting import until

MEND_SECONDS = 120.0


@pytest.fixture(scope="session")
def fault_stack() -> Iterator[Stack]:
    with stacks.running("--workers", "2", env=SLOW) as stack:
        yield stack


@pytest.fixture
def broken(fault_stack: Stack) -> Iterator[Stack]:
    """The stack, mended after the test before; what a test that failed left to be done is cancelled."""
    until(lambda: fleet.is_whole(fault_stack), seconds=MEND_SECONDS, what="the stack has mended itself")
    yield fault_stack
    for job_id in fleet.unfinished(fault_stack):
        with fault_stack.client() as client:
            client.post(f"/api/v1/jobs/{job_id}/cancel/")
