"""Keys are looked up once a second, however many requests they come with."""

import asyncio
import threading

import pytest

from inference import errors
from inference.api import authentication
from inference.preparation import Caller
from tests import factories

pytestmark = [pytest.mark.usefixtures("database"), pytest.mark.once]

KEY = f"sk-abcdefgh.{'a' * 40}"


class LookUp:
    """Stands in the place of the one in the database, which each test holds up."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked = 0

    def __call__(self, _key: str) -> Caller:
        self.asked += 1
        assert self.gate.wait(10)
        if self.asked > 1:
            raise errors.Unauthenticated("Incorrect API key.")
        return factories.make_caller()


@pytest.fixture
def look_up(monkeypatch: pytest.MonkeyPatch) -> LookUp:
    authentication.forget()
    stand_in = LookUp()
    monkeypatch.setattr(authentication, "_look_up", stand_in)
    return stand_in


def ask(count: int) -> list["asyncio.Task[Caller]"]:
    return [asyncio.create_task(authentication.caller_by_header(f"Bearer {KEY}")) for _ in range(count)]


async def test_requests_that_come_together_share_a_look_up(look_up: LookUp) -> None:
    waiting = ask(20)
    await asyncio.sleep(0)
    look_up.gate.set()
    callers = await asyncio.gather(*waiting)

    assert {caller.tenant for caller in callers} == {"default"}
    assert look_up.asked == 1


async def test_who_leaves_takes_the_look_up_from_nobody(look_up: LookUp) -> None:
    first, second = ask(2)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first])
    look_up.gate.set()
    assert (await second).tenant == "default"


async def test_a_refusal_is_everybodys_and_is_asked_for_anew(look_up: LookUp) -> None:
    look_up.asked = 1
    look_up.gate.set()
    for asked in (2, 3):
        answers = await asyncio.gather(*ask(5), return_exceptions=True)
        assert {type(answer) for answer in answers} == {errors.Unauthenticated}
        assert look_up.asked == asked


async def test_a_look_up_that_takes_long_is_joined_by_nobody_since_the_key_may_be_revoked_by_now(
    look_up: LookUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = ask(1)
    await asyncio.sleep(0)
    monkeypatch.setattr(authentication, "MAX_AGE_SECONDS", 0.0)
    [later] = ask(1)
    await asyncio.sleep(0)
    look_up.gate.set()
    await asyncio.gather(first, later, return_exceptions=True)

    assert look_up.asked == 2
