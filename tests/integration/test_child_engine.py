"""Starting, restarting and losing an engine, with the simulated one."""

import asyncio
import dataclasses
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests import engines as builders
from workers import engines
from workers.engine import Engine, EngineFault, EngineGone

pytestmark = pytest.mark.once
FAST = {"SLUICE_SIM_ARGS": "--decode-tps 1000"}


@pytest.fixture
async def make_engine(tmp_path: Path) -> AsyncIterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def make(**overrides: Any) -> Engine:
        values: dict[str, Any] = {"env": FAST} | overrides
        made.append(engines.create(builders.make_spec(tmp_path, **values)))
        return made[-1]

    yield make
    for engine in made:
        await engine.stop()


async def test_an_engine_that_was_never_started_refuses_work_and_stops_at_once(
    make_engine: Callable[..., Engine],
) -> None:
    engine = make_engine()
    with pytest.raises(EngineGone):
        await engine.gauges()
    await engine.stop()
    assert engine.exited.is_set()


async def test_start_returns_only_when_the_model_is_loaded(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(env={"SLUICE_SIM_ARGS": "--load-seconds 0.5"})
    started = asyncio.get_running_loop().time()

    await engine.start()

    assert asyncio.get_running_loop().time() - started >= 0.5
    assert not engine.exited.is_set()


async def test_an_engine_that_cannot_load_says_where_it_tells_why(
    make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make_engine(env={"SLUICE_SIM_ARGS": "--kv-tokens 10"})

    with pytest.raises(EngineGone, match=r"status 1 .*engine\.log"):
        await engine.start()

    assert engine.exited.is_set()
    assert "max_model_len" in (tmp_path / "engine.log").read_text()


async def test_a_start_that_is_given_up_leaves_nothing_after_stop(
    make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make_engine(env={"SLUICE_SIM_ARGS": "--load-seconds 600"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(engine.start(), 0.5)

    await engine.stop()

    assert not builders.processes_of(tmp_path)


async def test_a_stale_socket_is_no_obstacle(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "engine.sock"))

    await make_engine().start()


async def test_a_crashed_engine_starts_again(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine()
    await engine.start()
    family = builders.processes_of(tmp_path)
    os.kill(next(pid for pid, command in family.items() if "workers.shim" not in command), signal.SIGKILL)
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)

    await engine.start()

    await engine.warm_up()


async def test_when_even_the_shim_is_killed_the_rest_is_cleared_before_exited_says_so(
    make_engine: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed shim cannot remove its folder
    engine = make_engine()
    await engine.start()
    family = builders.processes_of(tmp_path)
    shim = next(pid for pid, command in family.items() if "workers.shim" in command)

    os.kill(shim, signal.SIGKILL)

    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    assert not builders.processes_of(tmp_path)


async def test_a_successor_on_the_same_socket_waits_until_its_predecessor_is_gone(
    make_engine: Callable[..., Engine],
) -> None:
    first, second = make_engine(), make_engine()
    await first.start()

    starting = asyncio.create_task(second.start())
    done, _ = await asyncio.wait([starting], timeout=0.3)
    assert not done
    assert (await first.gauges()).running == 0, "the first one is left alone"

    await first.stop()
    await asyncio.wait_for(starting, builders.DEADLINE_SECONDS)


async def test_a_wrong_answer_to_the_warm_up_is_a_fault(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(env={"SLUICE_SIM_ARGS": "--fact-answer London"})
    await engine.start()
    with pytest.raises(EngineFault, match="expected 'Paris' in the answer, got 'London'"):
        await engine.warm_up()


async def test_what_runs_when_an_engine_is_stopped_is_nobodys_fault(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    await engine.start()
    running = asyncio.create_task(engine.generate(builders.make_chat_call(max_tokens=8000, ignore_eos=True)))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    await engine.stop()

    with pytest.raises(EngineGone):
        await running


async def test_an_engine_sees_none_of_the_workers_secrets(
    make_engine: Callable[..., Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = {"DJANGO_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "FLOWER_BASIC_AUTH"}
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    await make_engine().start()
    for pid in builders.processes_of(tmp_path):
        assert not [name for name in secrets if name in builders.environment(pid)]


async def test_a_large_log_is_put_aside_at_the_start(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(b"x" * 11 * 1024 * 1024)

    await make_engine().start()

    assert log.stat().st_size < 1024
    assert (tmp_path / "engine.log.1").stat().st_size == 11 * 1024 * 1024


async def test_the_simulated_engine_says_of_a_prompt_what_it_was_told(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    await engine.start()
    asked = builders.make_chat_call(stream_options={"include_usage": True})
    call = dataclasses.replace(asked, prompt_tokens=4321)

    answer = json.loads(await engine.generate(dataclasses.replace(call, body=builders.make_chat_call().body)))
    streamed = b"".join([piece async for piece in engine.stream(call)])

    assert answer["usage"]["prompt_tokens"] == 4321
    assert b'"prompt_tokens": 4321' in streamed
