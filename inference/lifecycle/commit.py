"""Writes decided changes: one transaction, few statements, on SQLite and PostgreSQL alike."""

from collections.abc import Sequence
from datetime import datetime

from inference.lifecycle.changes import Applied, Change, NewJob
from inference.models import Job


def create(jobs: Sequence[NewJob]) -> list[Job]:
    """Insert the rows, `queued`, with their first events, in one transaction. Publishes nothing."""
    raise NotImplementedError


def apply(changes: Sequence[Change], *, now: datetime | None = None) -> list[Applied]:
    """Apply the changes in order, in one transaction; two of the same job act one after the other.

    The answers are in the order of the changes. Raises django.db.Error, with nothing applied.
    """
    raise NotImplementedError
