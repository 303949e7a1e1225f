"""Keys are looked up once a second, however many requests they come with."""

import asyncio
import threading

import pytest
from django.db import OperationalError

from inference import errors
from inference.api import ahead, authentication
from inference.models import ApiKey
from inference.preparation import Caller
from tests import factories
from tests.waiting import until

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


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A real key, looked up as soon as it is used again."""
    authentication.forget()
    monkeypatch.setattr(authentication, "MAX_AGE_SECONDS", 60.0)
    monkeypatch.setattr(ahead, "LEAD_SECONDS", 120.0)
    return factories.make_key()[1]


async def test_a_key_in_use_is_looked_up_before_it_must_be_waited_for(key: str) -> None:
    await authentication.caller_by_header(f"Bearer {key}")
    [(known_until, _)] = authentication._known.values()
    for _ in range(5):
        assert (await authentication.caller_by_header(f"Bearer {key}")).tenant == "default"

    await asyncio.to_thread(until, lambda: next(iter(authentication._known.values()))[0] > known_until)


async def test_a_key_in_use_is_forgotten_as_soon_as_it_is_found_revoked(key: str) -> None:
    await authentication.caller_by_header(f"Bearer {key}")
    await ApiKey.objects.aupdate(revoked=True)
    await authentication.caller_by_header(f"Bearer {key}")  # as was known of it less than a second ago

    await asyncio.to_thread(until, lambda: not authentication._known)
    with pytest.raises(errors.Unauthenticated):
        await authentication.caller_by_header(f"Bearer {key}")


async def test_a_look_up_ahead_that_fails_changes_nothing(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await authentication.caller_by_header(f"Bearer {key}")
    known = dict(authentication._known)
    failed = threading.Event()

    def away(_key: str) -> Caller:
        failed.set()
        raise OperationalError("away")

    monkeypatch.setattr(authentication, "_look_up", away)
    await authentication.caller_by_header(f"Bearer {key}")
    await asyncio.to_thread(until, lambda: failed.is_set() and not ahead._running)
    assert authentication._known == known
