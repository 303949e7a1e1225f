"""How long a queue's jobs wait, by those that were claimed of late. Pure; `broker/lua/drained.lua` does the same.

Two estimates of a wait, and the longer holds: what waits over the rate at which the queue drained, and how long
its oldest job has waited (R. Ibrahim and W. Whitt, "Real-time delay estimation in overloaded multiserver queues
with abandonments", 2009). Unlike a reckoning by slots, both count what comes meanwhile and goes first: weightier
tiers, shorter jobs, other tenants.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inference.admission.windows import Bucket, Size, Window

HALF_MINUTE: Final = Size(2000, 15)
SINCE_MS: Final = 2000
"""What a queue drained in less time than this is chance."""
LEAST_JOBS: Final = 8
"""So are fewer of them, to refuse by."""
LONGEST_GAP: Final = 2
"""Buckets without a claim: after more of them a queue begins to move anew. Before, it may have been paused, or its
engine loading."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a queue did since its oldest job came that did not come back to it, as far back as is known."""

    jobs: float
    """Claimed within `ms`, whole buckets."""
    ms: int
    waited_ms: int
    """How long the oldest has waited while others were claimed; 0 once none is: that is for another reason."""

    def wait_ms(self, jobs: int) -> int:
        """Return how long the last of so many jobs would wait; 0 where nothing was measured."""
        is_rate = self.ms >= SINCE_MS and self.jobs >= LEAST_JOBS
        by_drain = math.ceil(jobs * self.ms / self.jobs) if is_rate else 0
        return max(self.waited_ms, by_drain)


NOTHING: Final = Drained(0, 0, 0)


def drained(claimed: Window, oldest_ms: int | None, now_ms: int, *, back_ms: int = 0) -> Drained:
    """Measure a queue by its claims, and when the oldest job came that may be claimed; None: there is none.

    Of jobs that came back to it, with their first arrival, nobody knows how long they waited: `back_ms` is since
    when others did.
    """
    live, width = claimed.live(now_ms), claimed.size.width_ms
    if oldest_ms is None or not live:
        return NOTHING
    start = max(oldest_ms, back_ms, _row_start(live, claimed.size, now_ms) * width)
    since = math.ceil(start / width) * width
    jobs = sum(bucket.requests for bucket in live if bucket.at * width >= since)
    is_moving = live[-1].at >= now_ms // width - 1
    return Drained(jobs, now_ms - since, max(0, now_ms - start) if is_moving else 0)


def _row_start(live: Sequence[Bucket], size: Size, now_ms: int) -> int:
    """Return the bucket since which claims go on until now: the first whole one."""
    first = live[-1].at
    for bucket in reversed(live):
        if first - bucket.at > LONGEST_GAP + 1:
            break
        first = bucket.at
    return first + 1 if first > now_ms // size.width_ms - size.count else first
