"""What a job takes, by those that ended lately and those that run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """What is known of the jobs of a model and tier. Moments are seconds since the epoch."""

    took_seconds: float | None = None
    """Mean of the model's that ended lately; None: none did."""
    estimated_seconds: float | None = None
    """What the same were estimated at."""
    began_at: float | None = None
    """Mean start of the tier's that run, or if none does, of the model's; None: none runs."""
    last_began_at: float | None = None
    """The last start of the model's that run."""

    def service_seconds(self, estimate: float | None, *, still: float, now: float) -> float | None:
        """Return what a job takes that is estimated at so much, if none has started for so long; None: not known.

        As those that ended lately did, or longer by as much as it is estimated longer than they were, which may
        have been others. Not less the other way round: estimates are too long until an engine's rates are known.
        And no less than what runs of its tier has taken already: of many that began together only short ones have
        ended. Where none ends, they are taken to go on for as long again.
        """
        running = None if self.began_at is None else max(0.0, now - self.began_at) + still
        return max(filter(None, (self._by_ended(estimate), running)), default=None)

    def still_seconds(self, *, line_seconds: float, now: float) -> float:
        """Return for how long none has started though jobs waited for so long; 0 if none runs."""
        return 0.0 if self.last_began_at is None else min(line_seconds, max(0.0, now - self.last_began_at))

    def _by_ended(self, estimate: float | None) -> float | None:
        if self.took_seconds is None or estimate is None or not self.estimated_seconds:
            return estimate if self.took_seconds is None else self.took_seconds
        return self.took_seconds * max(1.0, estimate / self.estimated_seconds)
