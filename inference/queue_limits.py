"""Each queue has a row of limits, with none set, so that people find it in the admin's list and set some there."""

from inference import last_good, snapshot
from inference.models import QueueLimit


def complete(*, max_age_seconds: float = last_good.MAX_AGE_SECONDS) -> int:
    """Make the rows that are missing, by limits no older than that. Returns how many. Raises django.db.Error."""
    limits = snapshot.limits(max_age_seconds=max_age_seconds)
    missing = [QueueLimit(queue=name) for name in limits.queues() if name not in limits.queue_limits]
    QueueLimit.objects.bulk_create(missing, ignore_conflicts=True)  # another process may be at it
    return len(missing)
