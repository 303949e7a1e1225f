"""The one pool of threads in which the web process does what blocks: ORM, broker, tokenizer.

asgiref would open a thread, and with it a database connection, for every request that waits; here a process has at
most `THREADS` of each, whatever the number of open requests.
"""

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

import django.db

P = ParamSpec("P")
R = TypeVar("R")

THREADS: Final = 8
"""Work here waits for the disk and for Redis; more threads would only queue for SQLite's write lock."""

_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="api")


async def run(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run `work` in a thread of the pool and return what it returns, or raise what it raises.

    Cancelling the caller drops work that has not begun; what has begun runs to its end unseen.
    """
    call = functools.partial(_with_connections, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


def _with_connections(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    try:
        return work(*args, **kwargs)
    finally:
        # PostgreSQL's goes back to its pool, which looks at its health before it is used again. SQLite's stays
        # open, unless it broke.
        django.db.close_old_connections()
