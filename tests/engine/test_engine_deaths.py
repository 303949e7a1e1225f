"""How every engine that a worker starts ends: stopped, killed or hung, it leaves nothing running."""

import asyncio
import os
import signal

import pytest

from tests import engines as builders
from workers.engine import Engine, EngineGone
from workers.progress import Progress

pytestmark = [pytest.mark.once, pytest.mark.asyncio(loop_scope="session")]


async def test_a_stopped_engine_leaves_no_process_and_refuses_work(child: builders.Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    assert builders.processes_of(socket_path)

    await engine.stop()

    assert engine.exited.is_set()
    assert not builders.processes_of(socket_path)
    with pytest.raises(EngineGone):
        await engine.generate(builders.make_chat_call())


async def test_when_the_server_is_killed_nothing_of_the_engine_stays(child: builders.Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    running = asyncio.create_task(engine.generate(builders.make_long_call()))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    os.kill(_server(family), signal.SIGKILL)

    with pytest.raises(EngineGone):
        await running
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    await builders.until_gone(*family)


async def test_no_request_is_blamed_when_any_process_of_the_engine_dies(child: builders.Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    core = [pid for pid, command in family.items() if "EngineCore" in command] or [_server(family)]
    call = builders.make_long_call()
    running = [asyncio.create_task(engine.generate(call)) for _ in range(2)]
    await builders.until_gauges(engine, lambda gauges: gauges.running == 2)

    os.kill(core[0], signal.SIGKILL)

    for task in running:
        with pytest.raises(EngineGone):
            await task
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    await builders.until_gone(*family)


async def test_a_healthy_engine_that_makes_no_progress_falls_and_nothing_of_it_stays(
    child: builders.Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    running = asyncio.create_task(engine.generate(builders.make_long_call()))
    await builders.until_gauges(engine, lambda gauges: gauges.computed_tokens > 0 and gauges.running == 1)
    monkeypatch.setattr(Progress, "patience_seconds", 1.0)
    monkeypatch.setattr(engine, "_look_seconds", 0.2)

    hung = await _hang(engine, family)

    with pytest.raises(EngineGone):
        await running
    if hung:
        with pytest.raises(EngineGone):
            await hung
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    await builders.until_gone(*family)


async def _hang(engine: Engine, family: dict[int, str]) -> "asyncio.Task[bytes] | None":
    """Stop what computes; the server before it goes on to answer."""
    if core := [pid for pid, command in family.items() if "EngineCore" in command]:
        os.kill(core[0], signal.SIGSTOP)
        return None
    return asyncio.create_task(engine.generate(builders.make_chat_call(builders.HANGS)))


def _server(family: dict[int, str]) -> int:
    """The engine's own first process: not the shim, whose command line repeats it."""
    return next(pid for pid, command in family.items() if "--uds" in command and "workers.shim" not in command)
