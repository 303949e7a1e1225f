"""The only writer of a job's status. `docs/lifecycle.md` has the chart; `inference.states` the table.

`transitions` decides (pure), `commit` writes: one transaction for any number of changes, each conditional on
the status and the claim that the row has, each leaving a `JobEvent`. A change that finds another state moves
nothing and says so. Nothing here talks to Redis: callers tell the broker after the commit.
"""

from inference.lifecycle.changes import (
    Account,
    Applied,
    Cancel,
    Change,
    Expire,
    Fail,
    Feed,
    NewJob,
    Release,
    Retry,
    Start,
    Succeed,
    Work,
)
from inference.lifecycle.commit import apply, create
from inference.lifecycle.tiers import change_tier

__all__ = [
    "Account",
    "Applied",
    "Cancel",
    "Change",
    "Expire",
    "Fail",
    "Feed",
    "NewJob",
    "Release",
    "Retry",
    "Start",
    "Succeed",
    "Work",
    "apply",
    "change_tier",
    "create",
]
