"""Answers of other threads on the event loop."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from workers.bridge import Bridge


async def test_many_answers_arrive_each_at_its_own() -> None:
    bridge, futures = Bridge(), [Future[int]() for _ in range(500)]
    waiting = [asyncio.create_task(bridge.wait(future)) for future in futures]

    def answer() -> None:
        for i, future in enumerate(futures):
            future.set_result(i)

    threading.Thread(target=answer).start()

    assert await asyncio.gather(*waiting) == list(range(500))


async def test_answers_that_came_together_wake_the_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bridge, futures = Bridge(), [Future[int]() for _ in range(5)]
    waiting = asyncio.gather(*(bridge.wait(future) for future in futures))
    await asyncio.sleep(0)
    loop, woken = asyncio.get_running_loop(), []
    wake = loop.call_soon_threadsafe

    def count(*call: Any) -> Any:
        woken.append(call)
        return wake(*call)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    for future in futures:
        future.set_result(1)

    assert await waiting == [1] * 5
    assert len(woken) == 1


async def test_an_error_is_raised_where_it_is_waited_for() -> None:
    failed: Future[int] = Future()
    failed.set_exception(ValueError("no"))

    with pytest.raises(ValueError, match="no"):
        await Bridge().wait(failed)


async def test_who_stops_waiting_leaves_the_future_alone() -> None:
    bridge = Bridge()
    future: Future[int] = Future()
    waiting = asyncio.create_task(bridge.wait(future))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    future.set_result(1)
    await asyncio.sleep(0)

    assert waiting.cancelled()
    assert future.result() == 1


async def test_an_answer_given_up_is_given_up_here_too() -> None:
    future: Future[int] = Future()
    future.cancel()

    with pytest.raises(asyncio.CancelledError):
        await Bridge().wait(future)
