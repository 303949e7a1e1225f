"""One bounded pool does what blocks."""

import asyncio
import threading
import time

import pytest

from inference import errors, executor

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


LARGE = executor.LARGE_BYTES + 1


async def test_large_requests_leave_the_threads_of_the_others_alone() -> None:
    gate = threading.Event()
    busy = [asyncio.create_task(executor.run_for(LARGE, gate.wait)) for _ in range(3 * executor.THREADS)]
    await asyncio.sleep(0)

    names = await asyncio.gather(*(executor.run_for(1, _thread_name) for _ in range(3 * executor.THREADS)))
    assert not any(name.startswith("api-large") for name in names)
    gate.set()
    await asyncio.gather(*busy)
    assert (await executor.run_for(LARGE, _thread_name)).startswith("api-large")


async def test_only_so_many_large_requests_may_wait() -> None:
    gate, done = threading.Event(), list[int]()
    busy = [asyncio.create_task(executor.run_for(LARGE, gate.wait)) for _ in range(executor.LARGE_AT_ONCE - 1)]
    waiting = asyncio.create_task(executor.run_for(LARGE, done.append, 1))
    await asyncio.sleep(0)
    with pytest.raises(errors.Unavailable) as caught:
        await executor.run_for(LARGE, done.append, 2)
    assert (caught.value.code, caught.value.status) == ("busy", 503)

    waiting.cancel()  # a client that leaves gives its place up, before it was ever served
    await asyncio.wait([waiting])
    last = asyncio.create_task(executor.run_for(LARGE, done.append, 3))
    gate.set()
    await asyncio.gather(*busy, last)
    assert done == [3]


def _thread_name() -> str:
    return threading.current_thread().name
