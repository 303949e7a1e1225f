"""The worker's event loop in its thread, and all that lives on it: the engine, and one coroutine per job.

The hub's thread hands claims in and asks for credit; it never waits for the loop.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final
from uuid import UUID

import uvloop

from inference import broker
from inference.broker.types import Claimed, Token
from inference.group_commit import GroupCommit
from inference.limits import Limits
from inference.states import WorkerState
from workers import engines, gate
from workers.bridge import Bridge
from workers.config import WorkerConfig
from workers.engine import Engine, EngineSpec
from workers.execution import Abort, Applying, Execution, Surroundings, start_of
from workers.observer import Observer
from workers.outcomes import Outcome
from workers.readiness import Readiness
from workers.relay import Pace
from workers.room import EngineRoom
from workers.settlement import SETTLER
from workers.vitals import Vitals, halted

logger = logging.getLogger(__name__)

RELEASE_SECONDS: Final = 10.0
"""How long the jobs of a worker that stops may take to be given back."""

PREEMPTIONS_SECONDS: Final = 2.0
"""Between two looks at the engine's counter; the page costs it some milliseconds."""

OnDone = Callable[[Outcome | None, float], None]
"""Called on the event loop with how a claim ended and the seconds it took."""


class EngineHost:
    """Owns one engine and runs jobs on it. Its methods may be called from any thread."""

    def __init__(
        self,
        config: WorkerConfig,
        *,
        limits: Callable[[], Limits],
        on_credit: Callable[[], None],
        on_state: Callable[[], None],
        create: Callable[[EngineSpec], Engine] = engines.create,
    ) -> None:
        """Both callbacks come from any thread: the credit has grown, the state changed."""
        self._config = config
        self._limits = limits
        self._executions: dict[Token, Execution] = {}
        self._submitted: collections.deque[tuple[Claimed, Applying | None, OnDone]] = collections.deque()
        self._is_waking = False
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-loop", daemon=True)
        self._on_state = on_state
        self._readiness = Readiness(create(config.engine), _capacity(config), on_change=self._state_changed)
        self.room = EngineRoom(config, limits, self._readiness, on_room=on_credit)
        self.observer = Observer(config.model, limits)
        self._around: Surroundings | None = None
        self._chores: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the loop and begin to load the engine; returns at once."""
        self._thread.start()
        self._call(self._open()).result()

    def stop(self) -> None:
        """Give back what still runs, stop the engine and the loop. Blocks."""
        if self._thread.is_alive():
            self.drain()
            with contextlib.suppress(TimeoutError):
                self._call(self._close()).result(timeout=2 * RELEASE_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=RELEASE_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    # Jobs

    def submit(self, claimed: Claimed, on_done: OnDone) -> None:
        """Run a claim. It counts as in flight from here on."""
        self.room.add(claimed)
        starting = self._start(claimed)
        self._submitted.append((claimed, starting, on_done))
        if starting is None:
            self._wake()
        else:  # before its row has moved there is nothing to do, and the commit's thread needs the interpreter
            starting.then(lambda _: self._wake())

    def _wake(self) -> None:
        if not self._is_waking:  # one wake-up for a whole pull
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._begin_all)

    def _start(self, claimed: Claimed) -> Applying | None:
        """Have the row moved at once, before the event loop turns. None where something stands before that."""
        is_shut = not (self.room.is_open and self.room.holds(claimed.token))
        if self._around is None or claimed.is_parked or is_shut:
            return None
        return self._around.commits.submit(start_of(claimed, worker=self._around.worker))

    def abort(self, token: Token, why: Abort) -> None:
        """End one claim, if it still runs."""
        self._loop.call_soon_threadsafe(self._abort, token, why)

    def abort_job(self, job_id: UUID, why: Abort) -> None:
        """End every claim of a job that still runs."""
        self._loop.call_soon_threadsafe(self._abort_job, job_id, why)

    # State

    @property
    def vitals(self) -> Vitals:
        """The worker as it is now."""
        load, slots = self.room.load, self._config.model.max_num_seqs
        halt = self._limits().of_worker(self._config.node)
        condition = halted(self._readiness.condition, halt, in_flight=load.sequences)
        return Vitals(condition, slots, load.sequences, load.kv_tokens)

    def limits_changed(self) -> None:
        """Look anew: the worker may have been paused."""
        self._have_parked_look()

    def drain(self) -> None:
        """Claim nothing any more; what runs goes on."""
        if self._readiness.condition.state not in {WorkerState.STOPPED, WorkerState.FAILED}:
            self._readiness.drain()

    def give_back(self) -> None:
        """Abort what runs and put it back into its queues, at no cost of an attempt."""
        self._loop.call_soon_threadsafe(self._abort_all)

    # On the event loop

    async def _open(self) -> None:
        self._around = Surroundings(
            worker=self._config.node,
            engine=self._readiness.engine,
            readiness=self._readiness,
            room=self.room,
            commits=GroupCommit(),
            settler=SETTLER,
            bridge=Bridge(),
            streams=broker.new_async_broker(),
            observer=self.observer,
            pace=Pace(),
            limits=self._limits,
        )
        self._chores = [
            asyncio.create_task(self._readiness.run()),
            asyncio.create_task(self._follow_preemptions()),
        ]

    async def _follow_preemptions(self) -> None:
        """Keep the gate's margin in step with what the engine has to throw out."""
        while True:
            await asyncio.sleep(PREEMPTIONS_SECONDS)
            if not (self.room.is_open and self.room.load.sequences):
                continue
            try:
                self.room.note_preemptions((await self._readiness.engine.gauges()).preemptions)
            except Exception:  # others find out whether the engine lives
                logger.debug("the engine's counters could not be read", exc_info=True)

    async def _close(self) -> None:
        self._abort_all()
        deadline = time.monotonic() + RELEASE_SECONDS
        while self._executions and time.monotonic() < deadline:  # noqa: ASYNC110 (the last moments of the process)
            await asyncio.sleep(0.02)
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self._readiness.close()
        if self._around:
            await self._around.streams.close()
            await asyncio.to_thread(self._around.commits.close)

    def _begin_all(self) -> None:
        self._is_waking = False  # first: what is submitted from here on wakes anew
        while self._submitted:
            self._begin(*self._submitted.popleft())

    def _begin(self, claimed: Claimed, starting: Applying | None, on_done: OnDone) -> None:
        assert self._around is not None  # noqa: S101 (`start` made it)
        execution = Execution(claimed, self._around, starting)
        self._executions[claimed.token] = execution
        task = self._loop.create_task(self._run(execution, on_done))
        task.add_done_callback(_surface)

    async def _run(self, execution: Execution, on_done: OnDone) -> None:
        token, began, outcome = execution.claimed.token, time.monotonic(), None
        try:
            outcome = await execution.run()
        except Exception:
            logger.exception(
                "a claim was left to its lease", extra={"action": "claim_left", "job_id": token.job_id}
            )
            SETTLER.abandon(token)
        finally:
            del self._executions[token]
            on_done(outcome, time.monotonic() - began)
            self.room.remove(token)

    def _state_changed(self) -> None:
        self._have_parked_look()
        self._on_state()

    def _have_parked_look(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.room.look)

    def _abort(self, token: Token, why: Abort) -> None:
        self._begin_all()  # it may be one whose row is being moved
        if execution := self._executions.get(token):
            execution.abort(why)

    def _abort_job(self, job_id: UUID, why: Abort) -> None:
        self._begin_all()
        for token in [token for token in self._executions if token.job_id == job_id]:
            self._abort(token, why)

    def _abort_all(self) -> None:
        self._begin_all()
        for execution in list(self._executions.values()):
            execution.abort(Abort.DRAIN)

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> "concurrent.futures.Future[None]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)


def _capacity(config: WorkerConfig) -> gate.Capacity:
    model = config.model
    return gate.Capacity(
        sequences=model.max_num_seqs,
        kv_tokens=model.max_num_seqs * model.max_model_len,  # until the engine tells
        margin_tokens=model.kv_margin_tokens,
        largest_job_tokens=model.max_model_len,
    )


def _surface(task: "asyncio.Task[None]") -> None:
    """Log what nobody would see: an error in the lines around the execution."""
    if not task.cancelled() and (error := task.exception()):
        logger.error("a job's coroutine broke", exc_info=error, extra={"action": "coroutine_broke"})
