"""Celery's own record of a job: its state, its events for Flower, its place in the prefetch count.

The pool runs jobs without Celery's tracer, so it closes Celery's books itself. On the hub's thread, since the
books are plain sets that `inspect` walks through there.
"""

from typing import Any

from celery.worker import state

from workers.outcomes import Cancelled, Completed, Failed, Outcome


def close(request: Any, outcome: Outcome | None, *, seconds: float) -> None:
    """Record how a `celery.worker.request.Request` ended. The broker has been told already."""
    state.task_ready(request, successful=isinstance(outcome, Completed))
    match outcome:
        case Completed():
            request.send_event("task-succeeded", result=_summary(outcome), runtime=seconds)
        case Failed():
            request.send_event("task-failed", exception=str(outcome.reason), traceback="")
        case Cancelled():
            request.send_event("task-revoked", terminated=True, signum=None, expired=False)
        case _:  # interrupted, or dropped because its row did not move
            request.send_event("task-rejected", requeue=outcome is not None)
    request.acknowledge()


def _summary(completed: Completed) -> str:
    return f"{completed.finish_reason or 'done'}, {completed.output_tokens} tokens"
