"""More bulk jobs than a queue takes, and the processes that feed it killed amid it: all finish, each once.

`make spill JOBS=20000 CAP=1000` runs it at another size.
"""

import os
import signal
import time
from collections import Counter
from typing import Any, Final

import pytest

from inference import last_good
from tests.acceptance import audit, fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

JOBS: Final = int(os.environ.get("SPILL_JOBS", "300"))
CAP: Final = int(os.environ.get("SPILL_CAP", "50"))
A_CALL: Final = min(1_000, JOBS // 3)
SECONDS: Final = 60.0 + JOBS / 20
"""For all to finish; far more than it takes."""
AUDITED: Final = 300
"""Jobs whose histories are looked at one by one; of all, the rows and the number of their steps."""
KILLED: Final = ("control", "web", "worker-1")
LIMIT: Final = """
from inference.models import QueueLimit
QueueLimit.objects.update_or_create(queue={!r}, defaults=dict(max_jobs={}, is_paused=True))
"""
STEPS: Final = """
from django.db.models import Count
from inference.models import Job, JobEvent
print(*(f"{e['kind']}={e['n']}" for e in JobEvent.objects.order_by().values("kind").annotate(n=Count("id"))))
print(*(f"{e['status']}={e['n']}" for e in Job.objects.order_by().values("status").annotate(n=Count("id"))))
"""

pytestmark = [pytest.mark.timeout(round(120 + SECONDS)), pytest.mark.once]


def row(stack: Stack) -> dict[str, Any]:
    """The queue of the jobs."""
    [found] = [each for each in fleet.queues(stack) if (each["tier"], each["length"]) == ("bulk", "short")]
    return found


def lower_cap(stack: Stack) -> None:
    """Set the cap, pause, and wait until all parts go by it: limits grow a second old."""
    stack.manage("shell", "--verbosity=0", "-c", LIMIT.format(row(stack)["queue"], CAP))
    set_at = time.monotonic()
    until(lambda: time.monotonic() - set_at > last_good.MAX_AGE_SECONDS, what="older limits are forgotten")


def counted(line: str) -> Counter[str]:
    return Counter({name: int(number) for name, _, number in (part.partition("=") for part in line.split())})


def spill(stack: Stack) -> list[str]:
    """Submit far more than the queue takes; its cap is never passed."""
    ids: list[str] = []
    while len(ids) < JOBS:
        ids += fleet.submit(stack, min(A_CALL, JOBS - len(ids)), tiers=("bulk",), max_tokens=4)
        assert row(stack)["jobs"] <= CAP
    return ids


def crash(stack: Stack) -> None:
    """Kill at once who feeds, who takes jobs in and who runs them, and wait until they are back."""
    old = {part: stack.pid(part) for part in KILLED}
    for pid in old.values():
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(stack.pid(part) != pid for part, pid in old.items()), seconds=60, what="they are replaced")
    until(lambda: fleet.is_whole(stack), seconds=60, what="the stack is whole")


def test_all_jobs_that_spilled_finish_once_though_what_feeds_and_runs_them_is_killed() -> None:
    with stacks.running("--workers", "1") as stack:
        lower_cap(stack)
        ids = spill(stack)
        spilled = row(stack)["spilled"]
        assert spilled >= JOBS - CAP
        stack.manage("queues", "resume", row(stack)["queue"])
        until(lambda: row(stack)["spilled"] < spilled - CAP // 2, seconds=SECONDS, what="some are fed")
        assert row(stack)["spilled"] > 0, "the crash is in the middle"
        crash(stack)
        until(lambda: fleet.is_idle(stack), seconds=SECONDS, what="all have ended")

        audit.audit(stack, ids[:: max(1, JOBS // AUDITED)], seconds=SECONDS)
        steps, statuses = map(counted, stack.manage("shell", "--verbosity=0", "-c", STEPS).splitlines())
        assert statuses == {"succeeded": JOBS}
        assert fleet.all_ids(stack) == set(ids)
        assert steps["succeeded"] == JOBS, "each ended once"
        assert (steps["queued"], steps["spilled"] >= spilled) == (JOBS, True), "each came in once"
