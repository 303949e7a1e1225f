"""An engine at a URL: found, lost and found again."""

import asyncio
from collections.abc import Iterator

import pytest

from tests import engines as builders
from tests.integration import external_engines
from tests.integration.external_engines import MakeEngine, Scripted, Serve
from workers import external_engine
from workers.engine import EngineAway, EngineGone

pytestmark = pytest.mark.once
make_engine, serve, scripted = external_engines.make_engine, external_engines.serve, external_engines.scripted


@pytest.fixture
def sim() -> Iterator[builders.TcpSim]:
    with builders.tcp_sim() as sim:
        yield sim


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines are probed all the time."""
    monkeypatch.setattr(external_engine, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(external_engine, "RETRY_SECONDS", 0.01)


async def test_an_engine_that_is_not_there_is_away_and_is_found_when_it_comes(make_engine: MakeEngine) -> None:
    sim = builders.TcpSim()
    engine = make_engine(sim.url)
    with pytest.raises(EngineAway, match="cannot be reached"):
        await engine.start()
    assert engine.exited.is_set()

    sim.start("--load-seconds", "0.3")
    try:
        await builders.start_when_there(engine)
        await engine.warm_up()
    finally:
        sim.kill()


@pytest.mark.parametrize(
    "greeting", [b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"]
)
async def test_what_does_not_speak_http_is_no_engine(make_engine: MakeEngine, greeting: bytes) -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1")
    async with server:
        with pytest.raises(EngineAway, match="cannot be reached"):
            await make_engine(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").start()


async def test_what_runs_when_it_dies_is_nobodys_fault_and_it_is_found_again(
    make_engine: MakeEngine, sim: builders.TcpSim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_engine, "PROBE_SECONDS", 600.0)
    engine = make_engine(sim.url)
    await builders.start_when_there(engine)
    running = asyncio.create_task(engine.generate(builders.make_long_call()))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    sim.kill()

    with pytest.raises(EngineGone) as lost:
        await running
    assert not isinstance(lost.value, EngineAway), "it had begun"
    with pytest.raises(EngineAway):
        await engine.generate(builders.make_chat_call())
    # No probe is due: the lost call had it asked at once.
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    with pytest.raises(EngineAway):
        await engine.generate(builders.make_chat_call())

    sim.start()
    await builders.start_when_there(engine)
    await engine.warm_up()


async def test_what_runs_when_it_is_left_is_nobodys_fault(make_engine: MakeEngine, sim: builders.TcpSim) -> None:
    engine = make_engine(sim.url)
    await builders.start_when_there(engine)
    running = asyncio.create_task(engine.generate(builders.make_long_call()))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    await engine.stop()

    with pytest.raises(EngineGone):
        await running
    await builders.start_when_there(engine)
    await builders.until_gauges(engine, lambda gauges: gauges.running == 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(("lost", "is_away"), [(1, False), (2, True)])
async def test_one_lost_answer_is_forgiven_and_a_second_one_is_not(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, lost: int, is_away: bool
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()

    scripted.statuses["/health"] = [503] * lost

    if is_away:
        await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    else:
        await scripted.answers(6)
        assert not engine.exited.is_set()


async def test_a_call_that_hangs_ends_when_the_engine_is_found_gone(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, often: None
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()
    scripted.may_answer.clear()
    running = asyncio.create_task(engine.generate(builders.make_chat_call()))
    await builders.until(lambda: _true(scripted.bodies))

    scripted.statuses["/health"] = [503, 503]

    with pytest.raises(EngineGone):
        await running


async def _true(value: object) -> bool:
    return bool(value)
