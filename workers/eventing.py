"""When Celery's events go out to monitors: soon, and not before the work that they tell of."""

from typing import Any, Final

FLUSH_SECONDS: Final = 0.1
"""How long an event may wait for others to go with it."""


class Flusher:
    """Sends a dispatcher's buffered events a moment later.

    Celery sends them at the hub's next turn: a publish while the row of the job just claimed is written and its
    engine called. That cost two milliseconds of its first token, and one publish for each job under load.
    """

    def __init__(self, consumer: Any) -> None:
        """`consumer` is Celery's, with its dispatcher made."""
        self._timer = consumer.timer
        self._dispatcher = consumer.event_dispatcher
        self._is_due = False
        self._dispatcher.on_send_buffered = self._note

    def _note(self) -> None:
        """On the hub's thread, at each event that is buffered. A full buffer goes at once all the same."""
        if not self._is_due:
            self._is_due = True
            self._timer.call_after(FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Send what waits now: the last events, before the dispatcher closes."""
        self._is_due = False
        self._dispatcher.flush()
