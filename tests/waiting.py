"""Waiting on facts."""

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0
"""A busy machine takes its time; only a test that fails waits so long."""
PAUSES: Final = (0.01, 0.5)
"""Between two questions, the shortest and the longest in seconds."""
PAUSE_SHARE: Final = 3.0
"""A pause is so many times as long as the answer took: to ask must not keep the machine from what is asked for."""


def until(fact: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, what: str = "") -> T:
    """Ask again and again until the answer is true, and return it. Fails the test when patience ends."""
    asked_at = time.monotonic()
    ends_at = asked_at + seconds
    while not (answer := fact()):
        now = time.monotonic()
        if now > ends_at:
            raise AssertionError(f"not within {seconds:g} s: {what or fact}")
        time.sleep(min(max(PAUSE_SHARE * (now - asked_at), PAUSES[0]), PAUSES[1]))
        asked_at = time.monotonic()
    return answer
