"""Which errors of Redis are worth another try."""

import pytest
from redis import exceptions

from inference.broker import may_heal


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("away"),
        exceptions.TimeoutError("slow"),
        exceptions.BusyLoadingError("Redis is loading the dataset in memory"),
        exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."),
        exceptions.ReadOnlyError("You can't write against a read only replica."),
        exceptions.ResponseError("BUSY Redis is busy running a script."),
        exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"),
        ConnectionResetError(),
    ],
    ids=repr,
)
def test_a_server_that_is_away_or_in_a_bad_state_may_heal(error: Exception) -> None:
    assert may_heal(error)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ResponseError("user_script:12: attempt to perform arithmetic on a nil value"),
        exceptions.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value"),
        exceptions.DataError("Invalid input of type: 'NoneType'."),
        TypeError("a bug"),
    ],
    ids=repr,
)
def test_a_script_that_breaks_on_its_data_and_a_bug_do_not(error: Exception) -> None:
    assert not may_heal(error)
