"""Brings the engine up and keeps it up. The gate is open in state `ready` only: nothing is claimed before it."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from inference.states import WorkerState
from workers.engine import Engine, EngineAway, EngineGone
from workers.gate import Capacity
from workers.vitals import Condition

logger = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = (1.0, 30.0)
"""Before the first and at most before any restart of the engine; doubled in between."""
AWAY_SECONDS: Final = (0.5, 8.0)
"""The same for an engine that is not ours and is away; it is waited for as long as it takes."""
MAX_FAILED_LOADS: Final = 5
"""So many loads in a row without reaching `ready` and the worker gives up."""
SUSPICION_SECONDS: Final = 3.0
"""An engine that dropped a connection has this long to turn out dead."""
WARM_UP_SECONDS: Final = 600.0
"""An engine that has loaded and does not answer by then never will."""


class Readiness:
    """Supervises one engine on its event loop; everybody else reads `condition`, which is replaced whole."""

    def __init__(self, engine: Engine, capacity: Capacity, *, on_change: Callable[[], None]) -> None:
        """`capacity` counts until the engine has told its own; `on_change` is called on the event loop."""
        self.condition = Condition(WorkerState.STARTING)
        self.capacity = capacity
        self.engine = engine
        self._on_change = on_change
        self._suspect = asyncio.Event()
        self._is_draining = False

    @property
    def is_open(self) -> bool:
        """Whether the worker may claim. Any thread may ask."""
        # A drain comes from another thread, perhaps just when the loop opens the gate: so its mark counts too.
        return self.condition.state is WorkerState.READY and not self._is_draining

    @property
    def has_engine(self) -> bool:
        """Whether the engine is not known or suspected to be down: a job that was claimed may be handed to it."""
        return self.condition.state in {WorkerState.READY, WorkerState.DRAINING}

    async def run(self) -> None:
        """Keep an engine running until a drain or a cancel; returns in state `failed` if it cannot be loaded."""
        failures = aways = 0
        while not self._is_draining:
            await (_pause(aways, AWAY_SECONDS) if aways else _pause(failures, BACKOFF_SECONDS))
            try:
                await self._bring_up()
            except EngineAway as error:
                failures, aways = 0, aways + 1
                self._note_away(error, aways)
            except Exception as error:  # whatever it is, the next load may go well
                failures, aways = failures + 1, 0
                self._note_failure(error, failures)
            else:
                failures, aways = 1, 0  # from here on it fell, and a restart waits as after a failed load
                await self._until_it_falls()
            await self.engine.stop()
            if failures >= MAX_FAILED_LOADS:
                self._become(WorkerState.FAILED, f"the engine could not be loaded {failures} times in a row")
                return

    def suspect(self) -> None:
        """Shut the gate and find out whether the engine lives: a job lost its connection. On the event loop."""
        if self.is_open:
            self._become(WorkerState.LOADING, "the engine dropped a connection")
            self._suspect.set()

    def drain(self) -> None:
        """Shut the gate for good. Any thread may call it."""
        self._is_draining = True
        self._become(WorkerState.DRAINING)

    async def close(self) -> None:
        """Stop the engine."""
        await self.engine.stop()
        if self.condition.state is not WorkerState.FAILED:
            self._become(WorkerState.STOPPED)

    async def _bring_up(self) -> None:
        self._become(WorkerState.LOADING, self.condition.detail)
        await self.engine.start()
        self._become(WorkerState.WARMING)
        async with asyncio.timeout(WARM_UP_SECONDS):
            await self.engine.warm_up()
        gauges = await self.engine.gauges()
        if gauges.kv_capacity_tokens:
            self.capacity = replace(self.capacity, kv_tokens=gauges.kv_capacity_tokens)
        self._become(WorkerState.READY)

    async def _until_it_falls(self) -> None:
        """Return when the engine is gone, or does not answer after it was suspected."""
        ready_at = self.condition.ready_at
        while await self._is_suspected():
            if await self._seems_dead():
                break
            # Ready as before: were it ready anew, every doubt would give all that wait their whole deadline again.
            self._become(WorkerState.READY, ready_at=ready_at)
        logger.error("the engine is gone", extra={"action": "engine_lost"})
        self._become(WorkerState.LOADING, "the engine crashed")

    async def _is_suspected(self) -> bool:
        """Wait for a suspicion; False once the engine is gone."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self.engine.exited, self._suspect)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self._suspect.clear()
        return not self.engine.exited.is_set()

    async def _seems_dead(self) -> bool:
        try:
            await asyncio.wait_for(self.engine.exited.wait(), SUSPICION_SECONDS)
        except TimeoutError:
            try:
                await self.engine.gauges()
            except Exception:  # whatever it is: an error here would leave the engine without a supervisor
                return True
            return False
        return True

    def _note_away(self, error: EngineAway, count: int) -> None:
        if str(error) != self.condition.detail:  # once, and not every few seconds
            logger.warning(
                "waiting for the engine: %s", error, extra={"action": "engine_waited_for", "count": count}
            )
        self._become(WorkerState.LOADING, str(error))

    def _note_failure(self, error: Exception, failures: int) -> None:
        logger.error(
            "the engine could not be loaded: %s",
            error,
            exc_info=not isinstance(error, EngineGone),
            extra={"action": "engine_load_failed", "count": failures},
        )
        self._become(WorkerState.LOADING, str(error))

    def _become(self, state: WorkerState, detail: str = "", *, ready_at: float | None = None) -> None:
        ending = state in {WorkerState.DRAINING, WorkerState.STOPPED, WorkerState.FAILED}
        if self._is_draining and not ending:
            state = WorkerState.DRAINING  # what the engine does meanwhile changes nothing any more
        is_ready = state is WorkerState.READY
        is_news = (state, detail) != (self.condition.state, self.condition.detail)
        self.condition = Condition(
            state,
            detail,
            ready_at=(ready_at or time.monotonic()) if is_ready else None,
            kv_capacity_tokens=self.capacity.kv_tokens if is_ready else self.condition.kv_capacity_tokens,
        )
        if is_news:
            logger.info(
                "worker is %s", state, extra={"action": "worker_state", "reason": detail} if detail else {}
            )
        self._on_change()


async def _pause(tries: int, seconds: tuple[float, float]) -> None:
    """Wait after so many tries that failed in a row: the first time, doubled each time, up to the second."""
    if tries:
        await asyncio.sleep(min(seconds[0] * 2 ** min(tries - 1, 16), seconds[1]))
