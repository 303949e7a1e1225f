"""Pause, drain and resume of queues and workers: rows, so that they outlive every process. Live within 1 s."""

import fnmatch
import logging
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from django.db import transaction

from inference import clock, edits, errors, fields, snapshot
from inference.models import QueueLimit, Worker, WorkerLimit

logger = logging.getLogger(__name__)


class Action(StrEnum):
    """What an operator can do to a queue or a worker."""

    PAUSE = "pause"
    """Nothing is claimed. A queue still takes jobs; a worker's engine runs on."""
    DRAIN = "drain"
    """What is there is worked off, and no more is taken: jobs by a queue, claims by a worker."""
    RESUME = "resume"
    """End of both."""


QUEUE_PERMISSION: Final = "inference.change_queuelimit"
WORKER_PERMISSION: Final = "inference.change_workerlimit"
PERMISSIONS: Final = (QUEUE_PERMISSION, WORKER_PERMISSION)
"""Whoever has both of them is an operator."""

HALT_FIELDS: Final = ("is_paused", "is_draining", "halted_at", "halted_by", "resumed_at")
"""All that a halt writes: what an admin edits beside it meanwhile stays."""
_FLAGS: Final = HALT_FIELDS[:2]
"""What people set of them."""

Haltable = TypeVar("Haltable", QueueLimit, WorkerLimit)


def match_queues(pattern: str) -> list[str]:
    """Return the queues of a pattern, as `*.bulk.*`. Raises errors.NotFound, naming those there are."""
    return _match("queue", pattern, snapshot.limits().queues())


def match_workers(pattern: str) -> list[str]:
    """Return the workers of a pattern, with or without `@host`. Raises errors.NotFound, naming those there are.

    There are those in the registry, and those that are halted: one that is gone can be resumed before it is back.
    """
    return _match("worker", pattern, _workers())


def queue_named(name: str) -> str:
    """Return the name if there is such a queue. Raises errors.NotFound, naming those there are."""
    names = snapshot.limits().queues()
    return name if name in names else _none("queue", name, names)


def worker_named(name: str) -> str:
    """Return the name if there is such a worker, or a halt of it. Raises errors.NotFound."""
    names = _workers()
    return name if name in names else _none("worker", name, names)


def halt_queues(action: Action, queues: Iterable[str], *, by: str) -> list[QueueLimit]:
    """Do it to each queue, in one transaction; returns their rows. `by` says who, for log and admin."""
    clock.now()  # asked before the transaction, in which moments are reckoned
    with transaction.atomic():
        locked = QueueLimit.objects.select_for_update()
        return [_halt(locked.get_or_create(queue=queue)[0], action, by) for queue in _in_order(queues)]


def halt_workers(action: Action, workers: Iterable[str], *, by: str) -> list[WorkerLimit]:
    """Do it to each worker, in one transaction; returns their rows."""
    clock.now()
    with transaction.atomic():
        locked = WorkerLimit.objects.select_for_update()
        return [_halt(locked.get_or_create(worker=worker)[0], action, by) for worker in _in_order(workers)]


def stamp(row: QueueLimit | WorkerLimit, *, was_halted: bool, by: str) -> None:
    """Note on a row that changed by whom and when, and whether that ended a halt. Does not save."""
    row.halted_at, row.halted_by = clock.reckoned(), by[:200]
    if was_halted and not row.is_halted:
        row.resumed_at = row.halted_at
    transaction.on_commit(snapshot.renew)


def _halt(row: Haltable, action: Action, by: str) -> Haltable:
    before, was_halted = (row.is_paused, row.is_draining), row.is_halted
    match action:
        case Action.PAUSE:
            row.is_paused = True
        case Action.DRAIN:
            row.is_draining = True
        case Action.RESUME:
            row.is_paused = row.is_draining = False
    if (row.is_paused, row.is_draining) != before:
        stamp(row, was_halted=was_halted, by=by)
        row.save(update_fields=HALT_FIELDS)
        now = (row.is_paused, row.is_draining)
        edits.record(row, dict(zip(_FLAGS, before, strict=True)), dict(zip(_FLAGS, now, strict=True)), by=by)
        logger.info("%s of %s by %s", action, row, by, extra={"action": f"halt_{action}"})
    return row


def _in_order(names: Iterable[str]) -> list[str]:
    """Return each name once, as all who lock several rows take them: so no two wait for each other."""
    return sorted(set(names))


def _match(what: str, pattern: str, names: Sequence[str]) -> list[str]:
    found = [name for name in names if _is_meant(name, pattern)]
    return found or _none(what, pattern, names)


def _workers() -> list[str]:
    halted = WorkerLimit.objects.values_list("worker", flat=True)
    return sorted({*Worker.objects.values_list("name", flat=True), *halted})


def _none(what: str, asked: str, names: Sequence[str]) -> NoReturn:
    known = ", ".join(names) or "none"
    raise errors.NotFound(f"no {what} {fields.show(asked)}; there are: {known}", code=f"{what}_not_found")


def _is_meant(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.partition("@")[0], pattern)
