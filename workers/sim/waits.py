"""How long the requests that began had waited in the engine: vLLM's own histogram of it. Pure."""

import bisect
import itertools
from collections.abc import Iterator
from typing import Final

BOUNDS: Final = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0)
"""Seconds: vLLM's, as far as anyone waits here."""


class Waits:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        """Together."""
        self._in_bucket = [0] * len(BOUNDS)

    def add(self, seconds: float) -> None:
        """Count one that waited for so long."""
        self.count += 1
        self.seconds += seconds
        place = bisect.bisect_left(BOUNDS, seconds)
        if place < len(BOUNDS):
            self._in_bucket[place] += 1

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each bound, as Prometheus writes it, with how many waited at most so long."""
        for bound, count in zip(BOUNDS, itertools.accumulate(self._in_bucket), strict=True):
            yield str(bound), count
        yield "+Inf", self.count
