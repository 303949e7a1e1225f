"""Beat's scheduler: Celery's own, without a file, and of few words while Redis is away."""

import logging
from typing import Any

import kombu.exceptions
from celery import beat

from inference import broker

logger = logging.getLogger(__name__)


class Scheduler(beat.Scheduler):
    """Keeps its place in memory: no full disk ends it, and no last run that lies in the future delays anything."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send the entry's task; one that cannot be sent is sent the next time."""
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except beat.SchedulingError as error:
            is_outage, extra = _is_outage(error.__context__), {"action": "task_not_sent"}
            logger.warning("%s is not sent: %s", entry.name, error, exc_info=not is_outage, extra=extra)


def _is_outage(error: BaseException | None) -> bool:
    """Whether it goes by itself; kombu wraps an error of a connection into one of its own."""
    cause = error.__cause__ if isinstance(error, kombu.exceptions.OperationalError) else error
    return isinstance(cause, Exception) and broker.may_heal(cause)
