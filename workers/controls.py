"""Remote control of ours. `revoke` and `terminate` replace Celery's, so that every way to cancel is one way.

Celery's own would remember revoked ids for hours and kill processes. Ours take a job's id, or `job:claim` as
Flower knows it, cancel the job's row, and abort the engine's request.
"""

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from celery.worker.control import control_command, inspect_command
from django.db import Error, close_old_connections

from inference import broker, submission
from inference.errors import NotFound
from inference.models import Job, JobEvent
from inference.states import JobEventKind, JobStatus
from workers import consuming
from workers.execution import Abort
from workers.pool import EnginePool

logger = logging.getLogger(__name__)

_canceller: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="canceller")
"""The hub's thread must not wait for the database."""

PAUSES_SECONDS: Final = (0.2, 1.0, 5.0, 20.0)
"""Between tries to cancel while the database or Redis is away: whoever asked was told that it would be done."""


class Target(NamedTuple):
    """What a cancel names: a job, or one run of it."""

    job_id: UUID
    claim_id: UUID | None = None

    @classmethod
    def parse(cls, tag: str) -> Self:
        """Read a job's id, or `job:claim`. Raises ValueError if it is neither."""
        job_id, _, claim_id = tag.partition(":")
        return cls(UUID(job_id), UUID(claim_id) if claim_id else None)

    def is_past(self) -> bool:
        """Whether the run that it names is over. Raises django.db.Error.

        Every node hears a revoke, and one may act on it so late that the job was retried meanwhile.
        """
        if self.claim_id is None:
            return False
        began = JobEvent.objects.filter(job_id=self.job_id, claim_id=self.claim_id, kind=JobEventKind.RUNNING)
        runs = Job.objects.filter(id=self.job_id, claim_id=self.claim_id, status=JobStatus.RUNNING)
        return began.exists() and not runs.exists()


@control_command(variadic="task_id", signature="[id1 [id2 [... [idN]]]]")
def revoke(state: Any, task_id: Any, terminate: bool = True, signal: str = "", **_: Any) -> dict[str, Any]:  # noqa: ARG001, FBT001, FBT002 (Celery's signature)
    """Cancel jobs by their ids, or by job:claim."""
    return _accept(state, task_id, _cancel)


@control_command(variadic="task_id", args=[("signal", str)], signature="<signal> [id1 [id2 [... [idN]]]]")
def terminate(state: Any, task_id: Any, signal: str = "", **_: Any) -> dict[str, Any]:
    """Cancel jobs by their ids, or by job:claim; without a signal (from a cancel that is done) only abort them."""
    return _accept(state, task_id, _cancel if signal else _abort)


@control_command()
def shutdown(state: Any, msg: str = "", **_: Any) -> dict[str, Any]:  # noqa: ARG001 (Celery's signature)
    """Drain the worker and end it, as SIGTERM does."""
    state.consumer.drainer.request()
    return {"ok": "draining"}


@inspect_command()
def engine_state(state: Any, **_: Any) -> dict[str, Any]:
    """State of the engine, its slots and what is in flight; empty for a worker without an engine."""
    pool = state.consumer.pool
    return consuming.heartbeat_fields(pool.host.vitals) if isinstance(pool, EnginePool) else {}


def _accept(state: Any, task_id: Any, act: Any) -> dict[str, Any]:
    pool = state.consumer.pool
    try:
        targets = _targets(task_id)
    except ValueError:
        return {"error": "not a job's id, nor job:claim"}
    for target in targets:
        act(pool, target)
    return {"ok": f"cancelling {len(targets)} jobs"}


def _targets(task_id: Any) -> list[Target]:
    """Read one id or several. Raises ValueError."""
    ids: Iterable[str] = [task_id] if isinstance(task_id, str) else task_id or ()
    return [Target.parse(tag) for tag in ids]


def _cancel(pool: Any, target: Target) -> None:
    _canceller.submit(_cancel_row, pool, target)


def _cancel_row(pool: Any, target: Target) -> None:
    for pause_seconds in PAUSES_SECONDS:
        if _is_settled(pool, target):
            return
        time.sleep(pause_seconds)
    if not _is_settled(pool, target):
        logger.error("a cancel was given up", extra={"action": "cancel_lost", "job_id": target.job_id})


def _is_settled(pool: Any, target: Target) -> bool:
    """Cancel what is named; False if that is worth another try."""
    close_old_connections()
    extra = {"job_id": target.job_id, "claim_id": target.claim_id}
    try:
        if target.is_past():
            logger.info("a cancel came after the run it named", extra={"action": "cancel_late", **extra})
            return True
        submission.cancel(caller=None, job_id=target.job_id)
    except NotFound:
        logger.info("no such job to cancel", extra={"action": "cancel_unknown", **extra})
    except Exception as error:  # it must be in the log, which a future that nobody reads is not
        logger.warning("a job could not be cancelled: %r", error, extra={"action": "cancel_failed", **extra})
        return not isinstance(error, Error | broker.BrokerAway)
    else:
        _abort(pool, target)
    return True


def _abort(pool: Any, target: Target) -> None:
    if isinstance(pool, EnginePool):
        pool.host.abort_job(target.job_id, Abort.CANCELLED)
