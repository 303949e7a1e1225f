"""Waiting on facts."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10.0


def until(fact: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, what: str = "") -> T:
    """Ask again and again until the answer is true, and return it. Fails the test when patience ends."""
    ends_at = time.monotonic() + seconds
    while not (answer := fact()):
        if time.monotonic() > ends_at:
            raise AssertionError(f"not within {seconds:g} s: {what or fact}")
        time.sleep(0.01)
    return answer
