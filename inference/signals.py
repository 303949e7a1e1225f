"""What goes with a row that is deleted."""

import functools
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete
from django.dispatch import receiver

from inference import bodies
from inference.models import Job


@receiver(post_delete, sender=Job)
def drop_body(instance: Job, **_: Any) -> None:
    """Remove a deleted job's request from the storage, once it is gone for good."""
    if bodies.is_large(instance.request_bytes):
        transaction.on_commit(functools.partial(bodies.drop, [instance.pk]))
