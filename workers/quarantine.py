"""When a worker takes a job that must run alone: one that was in flight at two crashes of an engine. Pure."""

from typing import Final

OPEN_SHARE: Final = 2.0
"""So many times as long as it was shut for one, a worker stays open before it shuts for the next."""


class Quarantine:
    """Spaces such jobs, so that they take a third of a busy worker's time at most."""

    def __init__(self) -> None:
        self._began = 0.0
        self._due = float("-inf")

    def due_ms(self, *, now: float) -> int:
        """Return when the next may be taken whatever else waits; `now` in seconds of one steady clock."""
        return max(0, round((self._due - now) * 1000)) if self._due > now else 0

    def begin(self, *, now: float) -> None:
        """Note that one was taken: from here on the worker empties itself, then runs it."""
        self._began = now

    def end(self, *, now: float) -> None:
        """Note that it ended."""
        self._due = now + OPEN_SHARE * (now - self._began)
