"""What a job is taken to need, by those that ended and those that run; no wait is told below what was shown."""

from dataclasses import replace

import pytest

from inference.waiting import Pace, decide
from tests.unit.test_waiting import FULL, place, queue

NOW = 1_000.0
KNOWN = Pace(took_seconds=2.0, estimated_seconds=4.0)


@pytest.mark.parametrize(
    ("pace", "estimate", "seconds"),
    [
        (Pace(), None, None),
        (Pace(), 7.0, 7.0),
        (KNOWN, None, 2.0),
        (KNOWN, 4.0, 2.0),
        # Those that wait are estimated at three times what those were that ended.
        (KNOWN, 12.0, 6.0),
        (KNOWN, 1.0, 2.0),
        # What runs has taken 150 s already.
        (replace(KNOWN, began_at=NOW - 150), 4.0, 150.0),
        (replace(KNOWN, began_at=NOW - 1), 4.0, 2.0),
        (Pace(began_at=NOW - 150), 7.0, 150.0),
        # Clocks of two machines.
        (replace(KNOWN, began_at=NOW + 5), 4.0, 2.0),
    ],
)
def test_a_job_takes_what_others_took_or_are_taking(
    pace: Pace, estimate: float | None, seconds: float | None
) -> None:
    assert pace.service_seconds(estimate, still=0.0, now=NOW) == seconds


def test_where_none_ends_those_that_run_go_on_for_as_long_again() -> None:
    assert replace(KNOWN, began_at=NOW - 20).service_seconds(4.0, still=19.0, now=NOW) == 39
    assert KNOWN.service_seconds(4.0, still=19.0, now=NOW) == 2


def test_none_has_started_since_the_last_did_or_jobs_began_to_wait() -> None:
    runs = Pace(began_at=NOW - 9, last_began_at=NOW - 3)
    assert runs.still_seconds(line_seconds=60.0, now=NOW) == 3
    assert runs.still_seconds(line_seconds=1.0, now=NOW) == 1
    assert Pace().still_seconds(line_seconds=60.0, now=NOW) == 0


def test_a_wait_is_no_shorter_than_what_started_meanwhile_tells() -> None:
    shown = queue(FULL, starts_per_second=0.1, line_seconds=30.0)
    # By what jobs took, 14 * 4 / 7 = 8 s; one of the model's jobs started every ten seconds.
    assert decide(shown, place(own_ahead=13)).seconds == pytest.approx(140)
    assert decide(replace(shown, starts_per_second=100.0), place(own_ahead=13)).seconds == pytest.approx(8)


def test_what_started_before_anything_waited_tells_nothing() -> None:
    began = queue(FULL, starts_per_second=0.1, line_seconds=29.0)
    assert decide(began, place(own_ahead=13)).seconds == pytest.approx(8)


def test_a_free_slot_is_not_waited_for_whatever_was_shown() -> None:
    slow = queue(starts_per_second=0.1, line_seconds=60.0, still_seconds=60.0, service_seconds=None)
    assert decide(slow, place(own_ahead=3)).seconds == 0


def test_a_start_that_did_not_come_is_not_told_again() -> None:
    waits = queue(FULL, still_seconds=20.0)
    # By what jobs took, 4 / 7 s; but nothing has started in the 20 s that it waits.
    assert decide(waits, place()).seconds == pytest.approx(20)
    assert decide(replace(waits, still_seconds=0.5), place()).seconds == pytest.approx(4 / 7)
