"""Answers of other threads on the event loop."""

import asyncio
import threading
from typing import Any

import pytest

from inference.answer import Answer
from workers.bridge import Bridge


async def test_many_answers_arrive_each_at_its_own() -> None:
    bridge, answers = Bridge(), [Answer[int]() for _ in range(500)]
    waiting = [asyncio.create_task(bridge.wait(answer)) for answer in answers]

    def give_all() -> None:
        for i, answer in enumerate(answers):
            answer.give(i)

    threading.Thread(target=give_all).start()

    assert await asyncio.gather(*waiting) == list(range(500))


async def test_answers_that_came_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, answers = Bridge(), [Answer[int]() for _ in range(5)]
    waiting = asyncio.gather(*(bridge.wait(answer) for answer in answers))
    await asyncio.sleep(0)
    loop, woken = asyncio.get_running_loop(), []
    wake = loop.call_soon_threadsafe

    def count(*call: Any) -> Any:
        woken.append(call)
        return wake(*call)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    for answer in answers:
        answer.give(1)

    assert await waiting == [1] * 5
    assert len(woken) == 1


async def test_an_error_is_raised_where_it_is_waited_for() -> None:
    failed: Answer[int] = Answer()
    failed.fail(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await Bridge().wait(failed)


async def test_who_stops_waiting_leaves_the_answer_alone() -> None:
    bridge = Bridge()
    answer: Answer[int] = Answer()
    waiting = asyncio.create_task(bridge.wait(answer))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    answer.give(1)
    await asyncio.sleep(0)

    assert waiting.cancelled()
    assert answer.result() == 1
