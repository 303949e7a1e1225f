"""Objectives: the share of a tier's jobs that starts in time, kept or missed over three windows. Pure.

`broker/lua/objectives.lua` counts, in rings of buckets: a window counts whole buckets, and the one under way.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class Starts(NamedTuple):
    """Jobs of which it is known whether they started in time."""

    in_time: int = 0
    missed: int = 0
    """Started late, or gone after their time without a start."""


@dataclass(frozen=True, slots=True)
class Ring:
    """Buckets of equal width, the newest in the place of the oldest."""

    offset: int
    """Of its first bucket, in buckets."""
    width_seconds: int
    count: int
    """The bucket under way among them."""


@dataclass(frozen=True, slots=True)
class Window:
    """How far back a share looks."""

    name: str
    seconds: int
    ring: Ring


MINUTES: Final = Ring(0, 60, 61)
QUARTERS: Final = Ring(MINUTES.count, 900, 97)
WINDOWS: Final = (
    Window("5 min", 300, MINUTES),
    Window("1 h", 3600, MINUTES),
    Window("24 h", 86400, QUARTERS),
)
NOTHING: Final = (Starts(),) * len(WINDOWS)
"""Where nothing is known, as after a loss of Redis."""

_BUCKET: Final = struct.Struct("<III")
"""Number of its time, in time, missed."""


class Verdict(StrEnum):
    """What became of an objective over a window."""

    KEPT = "kept"
    MISSED = "missed"
    NO_JOBS = "no_jobs"
    NO_OBJECTIVE = "no_objective"


class Mark(StrEnum):
    """How an objective stands now: by its latest window, and by who waits."""

    KEPT = Verdict.KEPT
    MISSED = Verdict.MISSED
    NO_OBJECTIVE = Verdict.NO_OBJECTIVE
    LATE = "late"
    """Not missed so far, but the oldest job that waits will not start in time any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attained:
    """How it went over one window."""

    window: str
    seconds: int
    """Of the window; up to a bucket more is counted."""
    jobs: int
    in_time: int
    share: float | None
    """None: no jobs."""
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What a tier aims at, and how it went."""

    share: float | None
    """Of the jobs; None: an admin set none."""
    within_seconds: float | None
    """None: before their start deadline."""
    windows: tuple[Attained, ...]
    """The shortest first."""

    @property
    def latest(self) -> Attained | None:
        """Return the shortest window in which jobs are known of; None: there is none."""
        return next((each for each in self.windows if each.jobs), None)

    def mark(self, oldest_wait_seconds: float) -> "Mark | None":
        """Return how it stands in a word, where the oldest job has waited so long; None: nothing is known.

        Windows count starts: of a queue where none starts they would tell the past alone.
        """
        latest, within = self.latest, self.within_seconds
        if latest and latest.verdict is Verdict.MISSED:
            return Mark.MISSED
        if self.share is not None and within is not None and oldest_wait_seconds > within:
            return Mark.LATE
        return Mark(latest.verdict) if latest else None


def read(kept: bytes | None, now_seconds: float) -> tuple[Starts, ...]:
    """Return what a queue's rings say, for each of WINDOWS; `now_seconds` by the clock of who wrote them."""
    if not kept:
        return NOTHING
    buckets = list(_BUCKET.iter_unpack(kept[: len(kept) // _BUCKET.size * _BUCKET.size]))
    return tuple(_within(window, buckets, now_seconds) for window in WINDOWS)


def _within(window: Window, buckets: Sequence[tuple[int, ...]], now_seconds: float) -> Starts:
    ring, now = window.ring, int(now_seconds // window.ring.width_seconds)
    first = now - window.seconds // ring.width_seconds
    live = [b for b in buckets[ring.offset : ring.offset + ring.count] if first <= b[0] <= now]
    return Starts(sum(in_time for _, in_time, _ in live), sum(missed for *_, missed in live))


def stand(share: float | None, within_seconds: float | None, starts: Sequence[Starts]) -> Objective:
    """Return how an objective stands, by what is known of each of WINDOWS."""
    attained = tuple(_attained(share, window, found) for window, found in zip(WINDOWS, starts, strict=True))
    return Objective(share=share, within_seconds=within_seconds, windows=attained)


def together(objectives: Iterable[Objective]) -> Objective | None:
    """Return how queues of one objective stand as if they were one; None: they have no common one."""
    found = list(objectives)
    if len({(each.share, each.within_seconds) for each in found}) != 1:
        return None
    windows = zip(*(each.windows for each in found), strict=True)
    return stand(found[0].share, found[0].within_seconds, [_sum(each) for each in windows])


def _sum(windows: Sequence[Attained]) -> Starts:
    in_time = sum(each.in_time for each in windows)
    return Starts(in_time, sum(each.jobs for each in windows) - in_time)


def _attained(objective: float | None, window: Window, starts: Starts) -> Attained:
    jobs = starts.in_time + starts.missed
    return Attained(
        window=window.name,
        seconds=window.seconds,
        jobs=jobs,
        in_time=starts.in_time,
        share=starts.in_time / jobs if jobs else None,
        verdict=_verdict(objective, starts),
    )


def _verdict(objective: float | None, starts: Starts) -> Verdict:
    if not sum(starts):
        return Verdict.NO_JOBS
    if objective is None:
        return Verdict.NO_OBJECTIVE
    return Verdict.KEPT if starts.in_time >= objective * sum(starts) else Verdict.MISSED
