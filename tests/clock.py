"""A clock that stands still until it is told."""

import pytest


class Clock:
    """Takes the place of the `time` module in the one module that it is given to."""

    def __init__(self, seconds: float = 1000.0, *, step: float = 0.0) -> None:
        self.seconds = seconds
        self.step = step
        """How far each look moves it on."""

    def monotonic(self) -> float:
        """Return the time it shows."""
        self.seconds += self.step
        return self.seconds

    def replace_in(self, module: str, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        """Let `module` see this clock; all others keep the real one."""
        monkeypatch.setattr(f"{module}.time", self)
        return self
