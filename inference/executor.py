"""The pools of threads in which the web process does what blocks: ORM, broker, tokenizer.

asgiref would open a thread, and with it a database connection, for every request that waits; here a process has at
most `THREADS` and `LARGE_THREADS` of each, whatever the number of open requests. Requests with large bodies have
threads of their own: a dozen prompts of 100,000 tokens must not keep the short ones from theirs.
"""

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

import django.db

from inference import errors

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 8
"""Work here waits for the disk and for Redis; more threads would only queue for SQLite's write lock."""
LARGE_BYTES: Final = 64 * 1024
"""A request with a larger body is a large one: 16,000 tokens or so, whose count takes tens of milliseconds."""
LARGE_THREADS: Final = 2
LARGE_AT_ONCE: Final = 32
"""Large requests that run or wait for a thread; more are refused (fails closed: 503), for each holds its body."""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="api")
_large_pool = ThreadPoolExecutor(LARGE_THREADS, thread_name_prefix="api-large")
_large_places = threading.BoundedSemaphore(LARGE_AT_ONCE)


async def run(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread of the pool and return what it returns, or raise what it raises.

    Cancelling the caller drops work that has not begun; what has begun runs to its end unseen.
    """
    call = functools.partial(_with_connections, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


async def run_for(body_bytes: int, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do as `run`, in the threads that are for a request with a body of this size.

    Raises errors.Unavailable if there are too many large ones.
    """
    if body_bytes <= LARGE_BYTES:
        return await run(work, *args, **kwargs)
    if not _large_places.acquire(blocking=False):
        raise errors.Unavailable("Too many requests with large bodies at once. Try again.", code="busy")
    begun = _large_pool.submit(functools.partial(_with_connections, work, *args, **kwargs))
    begun.add_done_callback(_leave_place)
    return await asyncio.wrap_future(begun)


def _leave_place(_: "Future[R]") -> None:
    _large_places.release()


def _with_connections(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return work(*args, **kwargs)
    finally:
        # PostgreSQL's goes back to its pool, which looks at its health before it is used again. SQLite's stays
        # open, unless it broke.
        django.db.close_old_connections()
