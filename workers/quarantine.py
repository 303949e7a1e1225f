"""Lets a job run alone: one that was in flight at two crashes of an engine may be what crashes it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

CRASHES_UNTIL_ALONE: Final = 2


class Quarantine:
    """Any number of jobs together, or one alone; who waits to be alone goes before those who come later."""

    def __init__(self) -> None:
        self._together = 0
        self._waiting_alone = 0
        self._is_alone = False
        self._changed = asyncio.Condition()

    @property
    def is_wanted(self) -> bool:
        """Whether some job runs alone or waits to: a time to claim nothing."""
        return self._is_alone or self._waiting_alone > 0

    @contextlib.asynccontextmanager
    async def enter(self, *, alone: bool) -> AsyncIterator[None]:
        """Run within; waits until the others allow it."""
        if alone:
            async with self._run_alone():
                yield
        else:
            async with self._run_together():
                yield

    @contextlib.asynccontextmanager
    async def _run_alone(self) -> AsyncIterator[None]:
        self._waiting_alone += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._together and not self._is_alone)
                self._is_alone = True
        except asyncio.CancelledError:
            self._waiting_alone -= 1
            await self._tell()  # those that it kept out
            raise
        self._waiting_alone -= 1
        try:
            yield
        finally:
            self._is_alone = False
            await self._tell()

    @contextlib.asynccontextmanager
    async def _run_together(self) -> AsyncIterator[None]:
        if self.is_wanted:
            async with self._changed:
                await self._changed.wait_for(lambda: not self.is_wanted)
        self._together += 1
        try:
            yield
        finally:
            self._together -= 1
            if self._waiting_alone:
                await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
