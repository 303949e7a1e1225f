"""The end of a run that hangs where no signal reaches it, such as in a C library; a plugin loaded with `-p`.

pytest-timeout fails a test by a signal, and only once: nothing watches the end of a test that ran out of time.
"""

import faulthandler
import os
from collections.abc import Generator
from typing import Any, Final

import pytest

GRACE_SECONDS: Final = 60.0
"""How long after a test's own time limit the run ends."""

_stderr: Final = os.dup(2)
"""Of the run: while a test runs, pytest keeps what is written to its own."""


def _limit_seconds(item: pytest.Item) -> float:
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0] if mark else item.config.getini("timeout"))


def _watched(item: pytest.Item) -> Generator[None, Any, Any]:
    """Write the stacks of all threads and end the process, if this takes far longer than the test may."""
    faulthandler.dump_traceback_later(_limit_seconds(item) + GRACE_SECONDS, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch what the test's fixtures prepare."""
    return (yield from _watched(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the test itself."""
    return (yield from _watched(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch what the test's fixtures put back."""
    return (yield from _watched(item))
