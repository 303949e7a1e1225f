"""Objectives: which share started in time, over which window, and whether that is enough."""

import struct

import pytest

from inference import objectives
from inference.objectives import MINUTES, NOTHING, QUARTERS, Objective, Starts, Verdict

NOW = 1_700_000_000.0


def kept(*buckets: tuple[int, int, int], now: float = NOW) -> bytes:
    """Rings with counts (seconds ago, in time, missed), as the scripts write them."""
    rings = bytearray(12 * (MINUTES.count + QUARTERS.count))
    for ago, in_time, missed in buckets:
        for ring in (MINUTES, QUARTERS):
            number = int((now - ago) // ring.width_seconds)
            at = 12 * (ring.offset + number % ring.count)
            struct.pack_into("<III", rings, at, number, in_time, missed)
    return bytes(rings)


def verdicts(objective: Objective) -> list[str]:
    return [each.verdict for each in objective.windows]


@pytest.mark.parametrize(
    ("ago", "found"),
    [
        (0, [3, 3, 3]),
        (299, [3, 3, 3]),
        (361, [0, 3, 3]),
        (3_599, [0, 3, 3]),
        (3_661, [0, 0, 3]),
        (86_399, [0, 0, 3]),
        (87_301, [0, 0, 0]),
    ],
)
def test_a_window_has_what_came_within_it_and_at_most_a_bucket_more(ago: int, found: list[int]) -> None:
    assert [starts.in_time for starts in objectives.read(kept((ago, 3, 0)), NOW)] == found


def test_what_is_lost_or_cut_off_or_of_the_future_is_nothing() -> None:
    assert objectives.read(None, NOW) == objectives.read(b"", NOW) == NOTHING
    assert objectives.read(kept((0, 3, 0))[:700], NOW - 3600) == NOTHING
    assert objectives.read(kept((0, 3, 0)), NOW - 86_400) == NOTHING


def test_counts_of_a_day_add_up() -> None:
    five, hour, day = objectives.read(kept((0, 1, 0), (1000, 2, 1), (7200, 4, 2)), NOW)
    assert (five, hour, day) == (Starts(1, 0), Starts(3, 1), Starts(7, 3))


def test_an_objective_is_kept_at_its_share_and_missed_below_it() -> None:
    told = objectives.stand(0.95, 0.1, [Starts(95, 5), Starts(94, 6), Starts()])
    assert verdicts(told) == [Verdict.KEPT, Verdict.MISSED, Verdict.NO_JOBS]
    assert [each.share for each in told.windows] == [0.95, 0.94, None]


def test_without_an_objective_the_share_is_told_all_the_same() -> None:
    told = objectives.stand(None, None, [Starts(), Starts(1, 1), Starts(1, 3)])
    assert verdicts(told) == [Verdict.NO_JOBS, Verdict.NO_OBJECTIVE, Verdict.NO_OBJECTIVE]
    assert told.latest is told.windows[1]
    assert objectives.stand(None, None, NOTHING).latest is None


def test_queues_of_one_objective_stand_as_one_and_those_of_several_do_not() -> None:
    one = objectives.stand(0.9, 1.0, [Starts(9, 1), Starts(20, 0), Starts()])
    other = objectives.stand(0.9, 1.0, [Starts(8, 2), Starts(0, 1), Starts()])
    both = objectives.together([one, other])
    assert both is not None
    assert [(each.in_time, each.jobs) for each in both.windows] == [(17, 20), (20, 21), (0, 0)]
    assert verdicts(both) == [Verdict.MISSED, Verdict.KEPT, Verdict.NO_JOBS]
    assert objectives.together([one, objectives.stand(0.9, None, NOTHING)]) is None
    assert objectives.together([]) is None
