"""Room for request bodies: given in the order of asking, never lost, never more than there is."""

import asyncio
from typing import Any

import pytest

from inference import errors
from inference.api import intake
from inference.api.intake import Intake

BIG = 10 * intake.SMALL_BYTES


async def begun(*coroutines: Any) -> list[asyncio.Task[None]]:
    """Let all of them come as far as they can."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def test_room_is_given_in_the_order_of_asking() -> None:
    room = Intake(3)
    await room.take(2)
    large, small = await begun(room.take(3), room.take(1))
    assert not large.done()
    assert not small.done(), "it would overtake, and large bodies would never have a turn"
    room.give(2)
    await large
    room.give(3)
    await small
    assert room.free == 2


async def test_who_waits_too_long_is_told_to_come_back_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Intake(3)
    await room.take(2)
    with monkeypatch.context() as patched:
        patched.setattr(intake, "WAIT_SECONDS", 0.01)
        with pytest.raises(errors.Unavailable) as told:
            await room.take(3)
    assert (told.value.code, told.value.status) == ("busy", 503)
    assert told.value.retry_after_seconds
    await room.take(1)
    assert room.free == 0


@pytest.mark.parametrize("leaves_first", [True, False])
async def test_a_client_that_leaves_as_its_turn_comes_leaves_no_room_behind(*, leaves_first: bool) -> None:
    room = Intake(3)
    await room.take(3)
    leaving, next_one = await begun(room.take(3), room.take(3))
    if leaves_first:
        leaving.cancel()
    room.give(3)
    leaving.cancel()
    await asyncio.wait([leaving])
    await next_one
    room.give(3)
    assert room.free == 3


async def test_a_request_holds_its_body_once_and_gives_it_back_once() -> None:
    room = Intake(BIG)
    with intake.held(room) as holds:
        await holds.take(intake.SMALL_BYTES)
        assert room.free == BIG, "a small one is not counted"
        await holds.take(BIG)
        await holds.take(BIG)
        assert room.free == 0
        holds.give()
        holds.give()
        assert room.free == BIG
    assert room.free == BIG
