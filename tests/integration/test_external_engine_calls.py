"""What an engine at a URL is asked: it may lack pages and refuse fields, and is believed."""

import json

import pytest

from tests import engines as builders
from tests.integration import external_engines
from tests.integration.external_engines import MakeEngine, Scripted, Serve
from workers.engine import Engine, EngineAway, EngineFault, EngineGone, EngineRefused

pytestmark = pytest.mark.once
make_engine, serve, scripted = external_engines.make_engine, external_engines.serve, external_engines.scripted


async def test_an_engine_without_the_model_names_those_it_has(make_engine: MakeEngine) -> None:
    with builders.tcp_sim("--model", "other/model") as sim:
        engine = make_engine(sim.url)
        await builders.until(lambda: _says(engine, "other/model"))


async def _says(engine: Engine, words: str) -> bool:
    with pytest.raises(EngineAway) as away:
        await engine.start()
    return words in str(away.value)


@pytest.mark.parametrize("lacks", ["/health", "/v1/models"])
async def test_an_engine_may_lack_a_page_and_metrics(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, lacks: str
) -> None:
    scripted.statuses = {lacks: [404] * 10, "/metrics": [404]}
    engine = make_engine(await serve(scripted))

    await engine.start()
    await engine.warm_up()

    assert (await engine.gauges()).kv_capacity_tokens == 0


async def test_a_url_with_neither_page_is_not_an_engines(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.statuses = {"/health": [404], "/v1/models": [404]}
    with pytest.raises(EngineAway, match="is the URL right"):
        await make_engine(await serve(scripted)).start()


async def test_an_engine_that_refuses_priority_does_without_from_its_warm_up_on(make_engine: MakeEngine) -> None:
    with builders.tcp_sim("--refuses", "priority") as sim:
        engine = make_engine(sim.url)
        await builders.start_when_there(engine)
        await engine.warm_up()

        reply = await engine.generate(builders.make_chat_call(max_tokens=1, priority=2))

    assert json.loads(reply)["id"] == "chatcmpl-test", "the job's id is sent all the same"


async def test_an_engine_that_refuses_the_jobs_id_as_well_gets_neither(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.refuse = lambda request, body: "priority" in body or "X-Request-Id" in request.headers
    engine = make_engine(await serve(scripted))
    await engine.start()
    await engine.warm_up()
    tries = len(scripted.bodies)

    await engine.generate(builders.make_chat_call())

    assert tries == 3
    assert len(scripted.bodies) == tries + 1, "found out once, not for each job"


async def test_a_refused_warm_up_says_what_the_engine_says(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted
) -> None:
    scripted.refuse = lambda *_: True
    engine = make_engine(await serve(scripted))
    await engine.start()
    with pytest.raises(EngineFault, match=r"status 400: .*Unknown field"):
        await engine.warm_up()


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, EngineRefused), (403, EngineRefused), (429, EngineGone), (503, EngineGone), (500, EngineFault)],
)
async def test_an_engine_that_is_there_is_believed(
    make_engine: MakeEngine, serve: Serve, scripted: Scripted, status: int, error: type[Exception]
) -> None:
    engine = make_engine(await serve(scripted))
    await engine.start()
    scripted.statuses["/v1/chat/completions"] = [status]
    with pytest.raises(error) as raised:
        await engine.generate(builders.make_chat_call())
    assert not isinstance(raised.value, EngineAway)
