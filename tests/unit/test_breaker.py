"""When a timeout speaks for the server, and when for one connection alone."""

import pytest
from redis.exceptions import TimeoutError as TookTooLong

from inference.broker.breaker import Breaker


@pytest.fixture
def breaker() -> Breaker:
    """One that has sent nothing yet."""
    return Breaker()


def time_out() -> str:
    raise TookTooLong


def test_it_opens_when_nobody_was_answered(breaker: Breaker) -> None:
    breaker.call(lambda: "before")
    with pytest.raises(TookTooLong):
        breaker.call(time_out)
    with pytest.raises(TookTooLong, match="a moment ago"):
        breaker.call(lambda: "sent")


def test_a_connection_that_died_unheard_keeps_nobody_else_from_asking(breaker: Breaker) -> None:
    def time_out_while_another_is_answered() -> str:
        breaker.call(lambda: "another")
        return time_out()

    with pytest.raises(TookTooLong):
        breaker.call(time_out_while_another_is_answered)
    assert breaker.call(lambda: "sent") == "sent"
