"""What becomes of a job whose attempt ended without a result. Pure; `docs/lifecycle.md` shows it as a table.

What ends with a `ReleaseReason` runs again, by the rule here. What ends with a `FailureReason` does not: the same
request would fail in the same way, or it has run again too often. Only a hand queues it again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from inference.states import ReleaseReason


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a job that comes back is kept from the claims: doubled each time, with a random share taken off."""

    first_seconds: float
    longest_seconds: float
    least_share: float = 0.5
    """Of the full wait, so that jobs which fell together do not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """On what terms a job runs again."""

    costs_attempt: bool
    """Whether the attempt stays counted: the job fails once its tier's `max_attempts` are counted."""
    counts_crash: bool
    """Whether the job was there when its engine fell: at the third time it fails."""
    backoff: Backoff | None
    """None: it may be claimed at once."""


FAULT_BACKOFF: Final = Backoff(first_seconds=0.5, longest_seconds=30.0)
"""Of what comes back since something broke. Short at first: most faults are over when the engine is up again."""
MAX_TASK_DEATHS: Final = 3
"""A Celery task, not a job, whose worker died under it so often is dropped: it may be what kills it."""

CRASHES_UNTIL_ALONE: Final = 2
"""A job in flight at so many crashes of its engine may be what crashes it."""


def runs_alone(engine_crashes: int) -> bool:
    """Return whether a job must run with nothing beside it."""
    return engine_crashes >= CRASHES_UNTIL_ALONE


RULES: Final[Mapping[ReleaseReason, Rule]] = MappingProxyType(
    {
        ReleaseReason.DRAIN: Rule(costs_attempt=False, counts_crash=False, backoff=None),
        ReleaseReason.ENGINE_CRASH: Rule(costs_attempt=False, counts_crash=True, backoff=FAULT_BACKOFF),
        ReleaseReason.ENGINE_UNREACHABLE: Rule(costs_attempt=False, counts_crash=False, backoff=FAULT_BACKOFF),
        ReleaseReason.RUNS_ALONE: Rule(costs_attempt=False, counts_crash=False, backoff=None),
        ReleaseReason.LEASE_EXPIRED: Rule(costs_attempt=True, counts_crash=False, backoff=FAULT_BACKOFF),
    }
)
