"""Tests with a browser: the running stack as people see it."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.acceptance import stacks
from tests.acceptance.stacks import Stack
from tests.browser import chromium
from tests.browser.chromium import PATIENCE_MS, Scheme, Size, Visitor
from tests.waiting import until

HOSTILE_ANSWER: Final = "Paris<script>window.hacked=1</script><img/src=x/onerror=window.hacked=1>"
"""What the simulated engine says to the warm-up's question, in place of what it would say."""

QUEUES: Final = "from inference.models import QueueLimit; print(QueueLimit.objects.count())"

Visit = Callable[..., Visitor]

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """A stack whose engine talks slowly enough to be watched, and whose one fact is an attack."""
    arguments = shlex.join(["--decode-tps=20", f"--fact-answer={HOSTILE_ANSWER}"])
    with stacks.running(env={"SLUICE_SIM_ARGS": arguments}) as running:
        until(lambda: int(running.manage("shell", "--verbosity=0", "-c", QUEUES)), what="each queue has its row")
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser a module: its driver keeps an event loop that other modules' tests must not meet."""
    with chromium.running() as running:
        yield running


@pytest.fixture
def visit(browser: Browser, stack: Stack) -> Iterator[Visit]:
    """Makes visitors; in the end none of their browsers may have complained."""
    with ExitStack() as leaving:
        visitors: list[Visitor] = []

        def make(size: Size = "desktop", scheme: Scheme = "light") -> Visitor:
            visitors.append(leaving.enter_context(chromium.visitor(browser, stack.base_url, size, scheme)))
            return visitors[-1]

        yield make
        assert [complaint for visitor in visitors for complaint in visitor.complaints] == []


@pytest.fixture
def admin(visit: Visit, stack: Stack) -> Callable[..., Visitor]:
    """Makes visitors who are logged in as the stack's admin, on the dashboard or where asked."""

    def make(path: str = "/dashboard/", size: Size = "desktop", scheme: Scheme = "light") -> Visitor:
        visitor = visit(size, scheme)
        visitor.open(path)
        visitor.log_in(stack.access["admin_user"], stack.access["admin_password"])
        visitor.page.wait_for_url(f"**{path}")
        return visitor

    return make
