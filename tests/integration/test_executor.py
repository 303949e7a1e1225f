"""One bounded pool does what blocks."""

import asyncio
import threading
import time

import pytest

from inference import executor

pytestmark = pytest.mark.usefixtures("database")  # the pool looks after its connections, others' too


async def test_work_runs_in_a_bounded_number_of_threads() -> None:
    def work() -> str:
        time.sleep(0.002)  # so that the pool is used to its bound
        return threading.current_thread().name

    names = await asyncio.gather(*(executor.run(work) for _ in range(200)))
    assert 1 < len(set(names)) <= executor.THREADS


async def test_what_work_raises_reaches_the_caller() -> None:
    def work() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError):
        await executor.run(work)


async def test_work_that_has_not_begun_is_dropped_with_its_caller() -> None:
    gate, done = threading.Event(), list[int]()
    busy = [asyncio.create_task(executor.run(gate.wait)) for _ in range(executor.THREADS)]
    waiting = asyncio.create_task(executor.run(done.append, 1))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    gate.set()
    await asyncio.gather(*busy)
    await executor.run(lambda: None)
    assert done == []
