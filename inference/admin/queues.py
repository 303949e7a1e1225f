"""Queues come of tiers, length classes and models."""

from typing import Any

from django.db import transaction
from django.http import HttpRequest

from inference import queue_limits


class MakesQueues:
    """Mixed into a ModelAdmin of what queues are named by: new ones are in the list of queues at once."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save, and give the queues that come of it their rows."""
        super().save_model(request, obj, form, change)  # type: ignore[misc]  # a mixin: ModelAdmin has it
        transaction.on_commit(_complete, robust=True)  # should it fail, the control worker makes them


def _complete() -> None:
    # Not a partial: Django tells of a failure by the function's name, and a partial has none.
    queue_limits.complete(max_age_seconds=0)
