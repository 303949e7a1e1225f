"""The gate opens only when the engine has proved itself, and shuts when it falls."""

import asyncio
import functools
import types
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from inference.states import WorkerState
from tests.waiting import PATIENCE_SECONDS
from workers import readiness
from workers.engine import EngineAway, EngineCall, EngineFault, EngineGauges, EngineGone
from workers.gate import Capacity
from workers.readiness import Readiness

CAPACITY = Capacity(sequences=4, kv_tokens=1, margin_tokens=0, largest_job_tokens=100)


class ScriptedEngine:
    """Loads, warms up and falls as the test says."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self.loaded = asyncio.Event()
        self.warmed = asyncio.Event()
        self.starts = 0
        self.fault: Exception | None = None
        self.silence: Exception | None = None

    async def start(self) -> None:
        self.starts += 1
        self.exited.clear()
        self.silence = None
        await self.loaded.wait()
        if isinstance(self.fault, EngineGone):
            raise self.fault

    async def warm_up(self) -> None:
        await self.warmed.wait()
        if self.fault:
            raise self.fault

    async def gauges(self) -> EngineGauges:
        if self.silence:
            raise self.silence
        return EngineGauges(0, 0, kv_capacity_tokens=5000, kv_used_share=0.0, preemptions=0)

    async def stop(self) -> None:
        self.exited.set()

    async def generate(self, call: EngineCall) -> bytes:
        raise NotImplementedError

    def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        raise NotImplementedError


class Watched:
    """A readiness and the states it went through."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self.states: list[str] = []
        self.changed = asyncio.Event()
        self.readiness = Readiness(self.engine, CAPACITY, on_change=self._note)
        self.task = asyncio.create_task(self.readiness.run())

    def _note(self) -> None:
        self.states.append(self.readiness.condition.state)
        self.changed.set()

    @property
    def state(self) -> str:
        return self.readiness.condition.state

    async def until(self, fact: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not fact():
                self.changed.clear()
                await self.changed.wait()

    def is_open_after(self, starts: int) -> bool:
        return self.engine.starts == starts and self.readiness.is_open

    async def ready(self) -> "Watched":
        self.engine.loaded.set()
        self.engine.warmed.set()
        await self.until(lambda: self.readiness.is_open)
        return self

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "BACKOFF_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(readiness, "AWAY_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(readiness, "SUSPICION_SECONDS", 0.01)


async def test_the_gate_opens_only_after_load_and_warm_up() -> None:
    watched = Watched()
    await watched.until(lambda: watched.states)
    assert watched.state == WorkerState.LOADING
    watched.engine.loaded.set()
    await watched.until(lambda: len(watched.states) == 2)
    assert watched.state == WorkerState.WARMING
    assert not watched.readiness.is_open
    watched.engine.warmed.set()
    await watched.until(lambda: watched.readiness.is_open)
    assert watched.readiness.capacity.kv_tokens == 5000
    assert watched.readiness.condition.kv_capacity_tokens == 5000
    assert watched.readiness.condition.ready_at is not None
    await watched.end()


async def test_a_wrong_answer_to_the_warm_up_keeps_it_shut() -> None:
    watched = Watched()
    watched.engine.fault = EngineFault("warm-up: got nonsense")
    watched.engine.loaded.set()
    watched.engine.warmed.set()
    await watched.task
    assert "ready" not in watched.states


async def test_an_engine_that_never_answers_the_warm_up_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "WARM_UP_SECONDS", 0.01)
    watched = Watched()
    watched.engine.loaded.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await watched.task
    assert watched.state == WorkerState.FAILED


async def test_an_engine_that_falls_shuts_the_gate_and_is_started_again() -> None:
    watched = await Watched().ready()
    watched.engine.loaded.clear()
    watched.engine.exited.set()
    await watched.until(lambda: not watched.readiness.is_open)
    assert watched.readiness.condition.detail == "the engine crashed"
    assert watched.readiness.condition.ready_at is None
    await watched.ready()
    assert watched.engine.starts == 2
    await watched.end()


async def test_an_engine_that_cannot_be_loaded_is_given_up() -> None:
    watched = Watched()
    watched.engine.fault = EngineGone("exited with status 1")
    watched.engine.loaded.set()
    await watched.task
    assert watched.state == WorkerState.FAILED
    assert watched.engine.starts == readiness.MAX_FAILED_LOADS
    await watched.readiness.close()
    assert watched.state == WorkerState.FAILED


async def test_an_engine_that_is_away_is_waited_for_and_the_worker_says_so() -> None:
    watched = Watched()
    watched.engine.fault = EngineAway("cannot be reached")
    watched.engine.loaded.set()
    watched.engine.warmed.set()
    await watched.until(lambda: watched.engine.starts > 2 * readiness.MAX_FAILED_LOADS)
    assert (watched.state, watched.readiness.condition.detail) == (WorkerState.LOADING, "cannot be reached")
    watched.engine.fault = None
    await watched.until(lambda: watched.readiness.is_open)
    await watched.end()


async def test_an_engine_that_was_away_has_all_its_loads_before_it_is_given_up() -> None:
    watched = Watched()
    watched.engine.fault = EngineAway("cannot be reached")
    watched.engine.loaded.set()
    watched.engine.warmed.set()
    await watched.until(lambda: watched.engine.starts > readiness.MAX_FAILED_LOADS)
    watched.engine.fault = EngineFault("London")
    tried = watched.engine.starts
    await watched.task
    assert watched.state == WorkerState.FAILED
    assert watched.engine.starts - tried >= readiness.MAX_FAILED_LOADS - 1


async def test_an_engine_that_recovers_between_failures_is_never_given_up() -> None:
    watched = await Watched().ready()
    for starts in range(2, 2 * readiness.MAX_FAILED_LOADS):
        watched.engine.exited.set()
        await watched.until(functools.partial(watched.is_open_after, starts))
    await watched.end()


async def test_a_dropped_connection_shuts_the_gate_until_the_engine_has_answered() -> None:
    watched = await Watched().ready()
    ready_at = watched.readiness.condition.ready_at
    watched.readiness.suspect()
    assert not watched.readiness.is_open
    await watched.until(lambda: watched.readiness.is_open)
    assert watched.engine.starts == 1
    assert watched.readiness.condition.ready_at == ready_at, "deadlines' clocks go on"
    await watched.end()


@pytest.mark.parametrize("silence", [EngineGone("silent"), ValueError("cannot convert float NaN to integer")])
async def test_an_engine_without_a_sound_answer_when_suspected_is_started_again(silence: Exception) -> None:
    watched = await Watched().ready()
    watched.engine.silence = silence
    watched.readiness.suspect()
    await watched.until(lambda: watched.engine.starts == 2 and watched.readiness.is_open)
    await watched.end()


async def test_nothing_opens_a_draining_gate() -> None:
    watched = Watched()
    await watched.until(lambda: watched.states)
    watched.readiness.drain()
    watched.engine.loaded.set()
    watched.engine.warmed.set()
    await watched.until(lambda: len(watched.states) >= 3)
    assert set(watched.states[1:]) == {"draining"}
    await watched.readiness.close()
    assert watched.state == WorkerState.STOPPED
    await watched.end()


async def test_a_drain_that_comes_just_when_the_gate_opens_keeps_it_shut(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    # Where another thread may come in: after the look at the mark, before the new condition is there.
    clock = types.SimpleNamespace(monotonic=watched.readiness.drain)
    monkeypatch.setattr(readiness, "time", clock)
    watched.engine.loaded.set()
    watched.engine.warmed.set()
    await watched.until(lambda: len(watched.states) >= 4)
    assert not watched.readiness.is_open
    await watched.end()
