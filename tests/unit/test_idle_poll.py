"""An idle worker asks often enough to count for the others: a burst is levelled over those that were heard."""

from inference.levelling import HEARD_MS
from workers.transport import Transport

LATE_MS = 100
"""A server ends a blocking wait on its own tick."""


def test_an_idle_worker_is_heard_well_before_the_others_forget_it() -> None:
    assert Transport.brpop_timeout * 1000 + LATE_MS < 0.6 * HEARD_MS
