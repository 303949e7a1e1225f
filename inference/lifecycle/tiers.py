"""A waiting job in another tier: `queued` stays `queued`."""

import uuid
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from inference.models import Job, JobEvent
from inference.states import JobEventKind, JobStatus


def change_tier(job_id: uuid.UUID, tier: str, *, allowed: timedelta, detail: str) -> bool:
    """Set the tier of a job that waits; False: it does not, or is gone. The broker is the caller's to tell.

    `allowed` is how long the tier lets jobs wait. The start deadline comes no sooner than it was, nor sooner than
    that from now: nobody's job expires by being moved, and one on hold is on hold no longer.
    """
    now = timezone.now()
    with transaction.atomic():
        waiting = Job.objects.filter(id=job_id, status=JobStatus.QUEUED)
        found = waiting.select_for_update().values_list("start_deadline_at", flat=True).first()
        if found is None:
            return False
        waiting.update(tier_id=tier, start_deadline_at=max(found, now + allowed), hold_ends_at=None)
        JobEvent.objects.create(job_id=job_id, at=now, kind=JobEventKind.QUEUED, detail=detail[:255])
    return True
