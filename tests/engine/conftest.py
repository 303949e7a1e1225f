"""The engines that keep to one contract.

The real one is started once, for its own tests and for those of an external engine over TCP, and again after each
test that killed it.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from inference.states import EngineKind
from tests import engines as builders
from workers import bundled_model, engines
from workers.engine import Engine
from workers.external_engine import ExternalEngine

VLLM = pytest.param(EngineKind.VLLM, id="vllm", marks=pytest.mark.engine)
CHILDREN = [pytest.param(EngineKind.SIM, id="sim"), VLLM]
"""Engines that their worker starts."""
ENGINES = [
    CHILDREN[0],
    pytest.param("external sim", id="external-sim"),
    pytest.param("external vllm", id="external-vllm", marks=pytest.mark.engine),
    VLLM,
]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def children(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Callable[[EngineKind], builders.Child]]:
    """Makes each kind's one child."""
    made: dict[EngineKind, builders.Child] = {}

    def child(kind: EngineKind) -> builders.Child:
        if kind not in made:
            made[kind] = _make_child(kind, tmp_path_factory.mktemp("engine"))
        return made[kind]

    yield child
    for engine, spec in made.values():
        await engine.stop()
        assert not builders.processes_of(spec.socket_path), "a stopped engine leaves nothing running"


def _make_child(kind: EngineKind, folder: Path) -> builders.Child:
    spec = builders.make_spec(folder, kind=kind, env={"SLUICE_SIM_ARGS": f"--hang-on='{builders.HANGS}'"})
    if kind is EngineKind.VLLM:
        assert bundled_model.is_ready(spec.models_dir / bundled_model.NAME), "run `manage.py fetch_model` first"
    return engines.create(spec), spec


@pytest_asyncio.fixture(params=ENGINES, scope="session", loop_scope="session")
async def made(
    request: pytest.FixtureRequest, children: Callable[[EngineKind], builders.Child]
) -> AsyncIterator[list[Engine]]:
    """What must run for an engine's tests, itself last."""
    match request.param:
        case "external sim":
            with builders.tcp_sim() as sim:
                async with _external(sim.url) as external:
                    yield [external]
        case "external vllm":
            child, spec = children(EngineKind.VLLM)
            async with builders.on_tcp(spec.socket_path) as url, _external(url) as external:
                yield [child, external]
        case kind:
            yield [children(kind)[0]]


@contextlib.asynccontextmanager
async def _external(url: str) -> AsyncIterator[Engine]:
    engine = engines.create(builders.make_spec(Path(), kind=EngineKind.EXTERNAL, url=url))
    yield engine
    await engine.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def engine(made: list[Engine]) -> Engine:
    return [await _running(each) for each in made][-1]


@pytest_asyncio.fixture(params=CHILDREN, loop_scope="session")
async def child(
    request: pytest.FixtureRequest, children: Callable[[EngineKind], builders.Child]
) -> builders.Child:
    engine, spec = children(request.param)
    return await _running(engine), spec


async def _running(engine: Engine) -> Engine:
    if engine.exited.is_set():
        is_ours = not isinstance(engine, ExternalEngine)  # ours takes its time to load, another's is there
        await (engine.start() if is_ours else builders.start_when_there(engine))
    return engine
