"""When the clock of start deadlines runs: while a worker of the model is ready, and the queue is not paused."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q

from inference import clock, fleet, routing
from inference.models import QueueLimit


@dataclass(frozen=True, slots=True)
class Clocks:
    """Of one model's queues: each says since when it runs, None that it stands."""

    ready_since: datetime | None
    """Of all queues but those apart."""
    apart: Mapping[str, datetime | None]
    """Queues that are paused, or were after the model became ready."""

    def of(self, queue: str) -> datetime | None:
        """Return since when the queue's clock runs; None: no deadline passes."""
        return self.apart.get(queue, self.ready_since)


def clocks(model: str, *, now: datetime) -> Clocks:
    """Read the clocks of a model's queues. After a pause, as after a cold start, jobs have their time anew.

    What they say is by the caller's own clock, which shows `now`: only spans come from those who wrote the rows.
    """
    shared = clock.reckoned()
    ahead = now - shared
    ready_since = fleet.ready_since(model, now=shared)
    if ready_since is None:
        return Clocks(None, {})
    rows = QueueLimit.objects.filter(Q(is_paused=True) | Q(resumed_at__gt=ready_since))
    ours = [row for row in rows if routing.parse(row.queue).model == model]
    apart = {row.queue: None if row.is_paused or not row.resumed_at else row.resumed_at + ahead for row in ours}
    return Clocks(ready_since + ahead, apart)
