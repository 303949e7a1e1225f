"""Which errors of Redis go by themselves, and which the same call would meet again."""

from typing import Final

from redis.exceptions import DataError, RedisError, ResponseError

_PASSING: Final = ("OOM", "READONLY", "LOADING", "BUSY", "MISCONF", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN")
"""First words of error replies that tell of the server's state and not of the command: full, a replica, starting,
held up by a script, unable to save, cut off from its peers."""


def may_heal(error: Exception) -> bool:
    """Whether the same call can succeed later: the server is away, or in a state that passes.

    A script that breaks on its data, or a bug of ours, fails again however often it is tried.
    """
    if isinstance(error, ResponseError):
        # redis-py takes the first word off where it has a class of its own for it.
        return type(error) is not ResponseError or str(error).startswith(_PASSING)
    return isinstance(error, RedisError | OSError) and not isinstance(error, DataError)
