"""A margin that learns: the engine preempts when the jobs that the gate let in outgrow its KV cache. Pure."""

from typing import Final

from workers.gate import Capacity

STEPS: Final = 8
"""The first preemption adds this part of an even share of the cache to each job's margin."""
HALF_LIFE_SECONDS: Final = 60.0
"""In which what was added becomes half of it."""


class Pressure:
    """What each job's margin is raised by: doubled when preemptions are seen, and fading from there."""

    def __init__(self) -> None:
        self._seen: int | None = None
        self._extra = 0.0
        self._at = 0.0

    def note(self, preemptions: int, capacity: Capacity, *, now: float) -> None:
        """Hear of the engine's counter; `now` in seconds. A smaller count than before is a new engine's."""
        before, self._seen = self._seen, preemptions
        if before is None or preemptions <= before:
            return
        even_share = capacity.kv_tokens / max(1, capacity.sequences)
        self._extra = min(even_share, max(2 * self._faded(now), even_share / STEPS))
        self._at = now

    def extra_tokens(self, *, now: float) -> int:
        """Tokens to keep free per job beyond the model's own margin."""
        return int(self._faded(now)) if self._extra else 0

    def _faded(self, now: float) -> float:
        return float(self._extra * 0.5 ** ((now - self._at) / HALF_LIFE_SECONDS))
