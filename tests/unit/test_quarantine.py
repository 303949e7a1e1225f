"""A job that may be what crashes the engine runs alone."""

import asyncio

from workers.quarantine import Quarantine


class Visit:
    """A job inside, for as long as the test likes."""

    def __init__(self, quarantine: Quarantine, *, alone: bool = False) -> None:
        self.entered = asyncio.Event()
        self.leave = asyncio.Event()
        self.task = asyncio.create_task(self._run(quarantine, alone=alone))

    async def _run(self, quarantine: Quarantine, *, alone: bool) -> None:
        async with quarantine.enter(alone=alone):
            self.entered.set()
            await self.leave.wait()

    async def end(self) -> None:
        self.leave.set()
        await self.task


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def a_suspect_between(quarantine: Quarantine) -> tuple[Visit, Visit, Visit]:
    """One who is inside, a suspect who came after, and one who came last."""
    early = Visit(quarantine)
    await early.entered.wait()
    suspect = Visit(quarantine, alone=True)
    await settle()
    late = Visit(quarantine)
    await settle()
    return early, suspect, late


async def test_ordinary_jobs_run_together() -> None:
    quarantine = Quarantine()
    visits = [Visit(quarantine) for _ in range(3)]
    await asyncio.gather(*(v.entered.wait() for v in visits))
    assert not quarantine.is_wanted
    for visit in visits:
        await visit.end()


async def test_a_suspect_waits_for_the_others_and_keeps_new_ones_out() -> None:
    quarantine = Quarantine()
    early, suspect, late = await a_suspect_between(quarantine)
    assert bool(quarantine.is_wanted)
    assert not suspect.entered.is_set()
    assert not late.entered.is_set()
    await early.end()
    await suspect.entered.wait()
    await settle()
    assert not late.entered.is_set()
    await suspect.end()
    await late.entered.wait()
    assert not quarantine.is_wanted
    await late.end()


async def test_a_suspect_that_is_cancelled_while_it_waits_keeps_nobody_out() -> None:
    quarantine = Quarantine()
    early, suspect, late = await a_suspect_between(quarantine)
    suspect.task.cancel()
    await asyncio.wait_for(late.entered.wait(), 1)
    await early.end()
    await late.end()
