"""What must be true of a stack once all that it accepted has ended, whatever happened to it meanwhile."""

import fnmatch
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import psutil
import redis

from inference.broker.queues import RESERVATION_SECONDS
from inference.broker.spending import KEPT_SECONDS
from inference.routing import CONTROL_QUEUE
from inference.states import TERMINAL
from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

PREFIX: Final = "{sluice}:"
SETTLE_SECONDS: Final = 40.0
"""The reconciler leaves what is younger than 5 s alone, and walks every second."""

KEPT_KEYS: Final = (
    "queues",
    "plain",
    "weights",
    "tiers:*",
    "pass:*",
    "floor:*",
    "marks:*",
    "came:*",
    "gathered:*",
    "runs_alone",
    "workers:*",
    "sets:*",
    "looks",
    "admitting",
    "turn",
    "a:control",
    "l:control",
    "bell:control",
    "_kombu.binding.*",
    "_kombu.binding_permanent.*",
    "_kombu.binding_deadlines",
)
"""One in all, or for each queue, tier, tenant or exchange, however many jobs there were. On a busy machine some
periodic task always waits or runs; each is there once at most."""

EXPIRING_KEYS: Final[Mapping[str, int]] = {
    "s:*": 600,
    "mail:*": 60,
    "rate:*": 61,
    "burst:*": 2,
    "drained:*": 32,
    "starts:*": 87_300,
    "turns:*": 125,
    "back:*": 30,
    "next:*": 120,
    "spent:*": KEPT_SECONDS,
    "lock:*": 3,
    "*.reply.celery.pidbox": 10,
    "output:*": 7 * 24 * 3600,
    "speed:*": 7 * 24 * 3600,
}
"""What may outlive a job: its stream for those who come back, a web process's mail, what it taught, what limits
and objectives count of it, when those may come back whom a full queue refused; with the most seconds."""

NEXT: Final = {
    "spilled": {"queued", "cancelled", "expired"},
    "queued": {"running", "cancelled", "expired", "failed"},
    "running": {"succeeded", "failed", "cancelled", "released", "rescued"},
    "released": {"running", "cancelled", "expired", "failed"},
    "rescued": {"running", "cancelled", "expired", "failed"},
    "succeeded": set[str](),
    "failed": {"queued"},
    "cancelled": {"queued"},
    "expired": {"queued"},
}
"""What may follow in a job's history; `queued` after an end is a retry by hand."""
BEGINS: Final = {"spilled", "queued"}


def audit(
    stack: Stack, ids: list[str], *, seconds: float = 90, set_back_seconds: float = 0
) -> list[dict[str, Any]]:
    """Wait until the jobs have ended; check rows, histories, Redis and processes; return the jobs.

    Keys expire later by as much as Redis' clock was set back.
    """
    ended = fleet.wait_until_finished(stack, ids, seconds=seconds)
    for job in ended:
        check_row(job)
    check_keys(stack, set_back_seconds)
    assert all(fleet.count(stack, status) == 0 for status in fleet.UNFINISHED)
    assert (fleet.waiting(stack), fleet.leases(stack)) == (0, 0)
    until(lambda: not orphans(stack), what="an engine ends that a killed worker left")
    return ended


def check_row(job: dict[str, Any]) -> None:
    """One end for each beginning, steps in a lawful order, and a result if and only if it succeeded."""
    steps = kinds(job)
    begins = [step for before, step in pairwise([None, *steps]) if step in BEGINS and before not in BEGINS]
    assert steps[0] in BEGINS, job
    assert all(after in NEXT[before] for before, after in pairwise(steps)), job
    assert sum(step in TERMINAL for step in steps) == len(begins), job
    assert steps[-1] == job["status"], job
    assert (job["result"] is not None) is (job["status"] == "succeeded"), job


def kinds(job: dict[str, Any]) -> list[str]:
    """The steps of a job's history."""
    return [event["kind"] for event in job["history"]]


def check_keys(stack: Stack, set_back_seconds: float = 0) -> None:
    """Wait until Redis holds nothing that it should not."""
    seconds = SETTLE_SECONDS + (RESERVATION_SECONDS if has_reservations(stack) else 0)
    try:
        until(lambda: not left_over_keys(stack, set_back_seconds), seconds=seconds)
    except AssertionError:
        raise AssertionError(f"left in Redis: {left_over_keys(stack, set_back_seconds)}") from None


def has_reservations(stack: Stack) -> bool:
    """Whether room is kept for jobs that a web process which died did not publish: until its minute is over."""
    with redis.Redis.from_url(stack.access["redis_url"]) as client:
        return any(name.startswith(f"{PREFIX}r:") for name in _names(client))


def left_over_keys(stack: Stack, set_back_seconds: float = 0) -> list[str]:
    """Redis keys that should be gone when no job is queued or running."""
    with redis.Redis.from_url(stack.access["redis_url"]) as client:
        return sorted(key for key in _names(client) if not _may_stay(client, key, set_back_seconds))


def _names(client: redis.Redis) -> list[str]:
    return [key.decode("latin-1") for key in client.scan_iter(count=1000)]


def _may_stay(client: redis.Redis, key: str, set_back_seconds: float) -> bool:
    name = key.removeprefix(PREFIX)
    if any(fnmatch.fnmatchcase(name, kept) for kept in KEPT_KEYS):
        return True
    if name.startswith("e:") and client.hget(key.encode("latin-1"), "q") == CONTROL_QUEUE.encode():
        return True
    most = next((s for pattern, s in EXPIRING_KEYS.items() if fnmatch.fnmatchcase(name, pattern)), None)
    left = client.pttl(key.encode("latin-1"))
    is_gone = left == -2
    return is_gone or (most is not None and 0 <= left <= (most + set_back_seconds) * 1000)


def orphans(stack: Stack) -> list[psutil.Process]:
    """Processes of the stack that nobody looks after: all it started is below `up` or below this test."""
    marked = stacks.marked(stack.mark)
    family = psutil.Process().children(recursive=True)  # after the others: what has just been started is in both
    return [process for process in stacks.alive(marked) if process not in family]
