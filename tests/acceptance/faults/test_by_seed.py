"""Ten faults a stack, dealt by a seed, under a load of every kind: all that was accepted ends once, and well.

`make faults SEED=… FAULTS=…` repeats a run or makes a long one.
"""

import collections
import contextlib
import logging
import os
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.conf import settings

from inference.states import JobStatus
from tests import databases
from tests.acceptance import fleet
from tests.acceptance.audit import audit
from tests.acceptance.faults import catalogue, clocks, disks, places, plan
from tests.acceptance.faults.load import Load
from tests.acceptance.faults.places import Place
from tests.acceptance.faults.plan import Round
from tests.waiting import until

logger = logging.getLogger(__name__)

FAULTS_A_STACK: Final = 10
FAULTS: Final = int(os.environ.get("FAULTS_COUNT", FAULTS_A_STACK // 2))
"""All in all; unless told otherwise half a stack's on each database: ten in a whole run of the tests."""
MEND_SECONDS: Final = 120.0
QUIET_SECONDS: Final = 120.0


def first_seed() -> int:
    """The one asked for; else another one for each commit."""
    if asked := os.environ.get("FAULTS_SEED"):
        return int(asked)
    git = ("git", "rev-parse", "--short=6", "HEAD")
    head = subprocess.run(git, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False).stdout
    return int(head.strip() or "0", 16) * 100


def seeds() -> list[int]:
    """One a stack."""
    return [first_seed() + i for i in range(-(-FAULTS // FAULTS_A_STACK))]


@pytest.mark.timeout(900)
@pytest.mark.tracebacks("ten faults of any kind, in any order, may meet a call anywhere")
@pytest.mark.parametrize("seed", seeds())
def test_all_that_was_accepted_ends_once_and_well_whatever_breaks(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="httpx")  # a line for each question
    known = catalogue.faults(
        has_server=databases.name() == databases.POSTGRESQL,
        has_disk=disks.may_mount(),
        has_clocks=clocks.library() is not None,
    )
    told = list[str]()
    with places.running() as place:
        seen = set[str]()
        turns = plan.rounds(seed, known, min(FAULTS, FAULTS_A_STACK))
        for number, turn in enumerate(turns):
            told.append(str(turn))
            with saying(seed, told, place):
                jobs = survive(
                    place,
                    turn,
                    seed=100 * seed + number,
                    seen=seen,
                    set_back_seconds=set_back(turns[: number + 1]),
                )
                seen |= {job["id"] for job in jobs}
                ends = dict(collections.Counter(job["status"] for job in jobs))
                logger.info("seed %d, round %d: %s; %s", seed, number + 1, turn, ends)


@contextlib.contextmanager
def saying(seed: int, told: list[str], place: Place) -> Iterator[None]:
    """Say of a failure at once what led to it, and how to see it again; keep what the stack said."""
    try:
        yield
    except Exception as error:
        log = settings.BASE_DIR / "artifacts" / f"faults-{databases.name()}-{seed}.log"
        log.parent.mkdir(exist_ok=True)
        log.write_text(place.stack.log())
        again = f"make faults SEED={seed} FAULTS={min(FAULTS, FAULTS_A_STACK)} DATABASE={databases.name()}"
        faults = "\n".join(f"  {turn}" for turn in told)
        error.add_note(f"Faults so far:\n{faults}\nTo repeat: {again}\nWhat the stack said: {log}")
        logger.error("seed %d: %s\n%s", seed, error, "\n".join(error.__notes__))  # noqa: TRY400 - pytest shows it
        raise


def set_back(turns: list[Round]) -> float:
    """By how much Valkey's clock was set back in any of the rounds: what had an end then ends later by that."""
    clocks_of = [f.target for turn in turns for f in turn.faults if catalogue.KINDS[f.kind].outlasts_the_load]
    return 3600 if catalogue.VALKEY in clocks_of else 0


def survive(
    place: Place, turn: Round, *, seed: int, seen: set[str], set_back_seconds: float = 0
) -> list[dict[str, Any]]:
    """Break the stack under load, and find everything in order afterwards; returns the jobs."""
    until(place.is_whole, seconds=MEND_SECONDS, what="the stack is whole")
    load = Load(place.stack, fleet.model(place.stack), seed)
    with contextlib.ExitStack() as lasting:
        load.start()
        try:
            until(lambda: fleet.leases(place.stack) > 0, seconds=MEND_SECONDS, what="jobs run")
            go_wrong(place, turn, lasting)
            until(
                lambda: is_mended(place, turn), seconds=MEND_SECONDS, what=f"the stack has mended itself: {turn}"
            )
            before = len(load.accepted)
            until(lambda: len(load.accepted) > before, seconds=MEND_SECONDS, what="it takes work again")
        except AssertionError as error:
            error.add_note(str(load))
            raise
        finally:
            load.stop()
        until(lambda: fleet.is_idle(place.stack), seconds=QUIET_SECONDS, what="all has come to an end")
        ids = fleet.all_ids(place.stack) - seen
        jobs = audit(place.stack, sorted(ids), set_back_seconds=set_back_seconds)
        load.check(jobs)
        check_ends(jobs, turn)
    return jobs


def go_wrong(place: Place, turn: Round, lasting: contextlib.ExitStack) -> None:
    """Have the round's faults happen, and end those that end while the load goes on."""
    with contextlib.ExitStack() as brief:
        for fault in turn.faults:
            kind = catalogue.KINDS[fault.kind]
            chosen = lasting if kind.outlasts_the_load else brief
            chosen.enter_context(kind.happen(place, fault.target))
        places.let_pass(turn.hold_seconds)


def is_mended(place: Place, turn: Round) -> bool:
    """Whether all is well again. What a worker with a wrong clock says of itself seems to be long ago."""
    wrong = [fault.target for fault in turn.faults if catalogue.KINDS[fault.kind].outlasts_the_load]
    return place.is_whole(unheard=wrong)


def check_ends(jobs: list[dict[str, Any]], turn: Round) -> None:
    """What nobody cancelled succeeded: each job has attempts enough for what one round can do to it."""
    wrong = [job for job in jobs if job["status"] not in {JobStatus.SUCCEEDED, JobStatus.CANCELLED}]
    assert not wrong, (str(turn), len(wrong), wrong[:3])
