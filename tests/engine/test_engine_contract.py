"""What every engine keeps to: the simulated one stands for vLLM in all other tests because both pass these.

The real one is started once, for its own tests and for those of an external engine over TCP, and again after each
test that killed it.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from inference.states import EngineKind
from tests import engines as builders
from workers import bundled_model, engines
from workers.engine import Engine, EngineGone, EngineRefused, EngineSpec
from workers.external_engine import ExternalEngine
from workers.progress import Progress

HANGS = "Hang, please."
"""What stops the simulated engine."""
LONG = 4_000
"""Tokens of an answer that no engine finishes while a test looks."""

Child = tuple[Engine, EngineSpec]

pytestmark = [pytest.mark.once, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]

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
async def children(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Callable[[EngineKind], Child]]:
    """Makes each kind's one child."""
    made: dict[EngineKind, Child] = {}

    def child(kind: EngineKind) -> Child:
        if kind not in made:
            made[kind] = _make_child(kind, tmp_path_factory.mktemp("engine"))
        return made[kind]

    yield child
    for engine, spec in made.values():
        await engine.stop()
        assert not builders.processes_of(spec.socket_path), "a stopped engine leaves nothing running"


def _make_child(kind: EngineKind, folder: Path) -> Child:
    spec = builders.make_spec(folder, kind=kind, env={"SLUICE_SIM_ARGS": f"--hang-on='{HANGS}'"})
    if kind is EngineKind.VLLM:
        assert bundled_model.is_ready(spec.models_dir / bundled_model.NAME), "run `manage.py fetch_model` first"
    return engines.create(spec), spec


@pytest_asyncio.fixture(params=ENGINES, scope="session", loop_scope="session")
async def made(
    request: pytest.FixtureRequest, children: Callable[[EngineKind], Child]
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
async def child(request: pytest.FixtureRequest, children: Callable[[EngineKind], Child]) -> Child:
    engine, spec = children(request.param)
    return await _running(engine), spec


async def _running(engine: Engine) -> Engine:
    if engine.exited.is_set():
        is_ours = not isinstance(engine, ExternalEngine)  # ours takes its time to load, another's is there
        await (engine.start() if is_ours else builders.start_when_there(engine))
    return engine


async def test_a_started_engine_knows_the_answer_to_its_warm_up(engine: Engine) -> None:
    await engine.warm_up()


async def test_a_chat_is_answered_with_text_and_its_price(engine: Engine) -> None:
    reply = json.loads(await engine.generate(builders.make_chat_call("What is the capital of France?")))

    choice, usage = reply["choices"][0], reply["usage"]
    assert reply["object"] == "chat.completion"
    assert "Paris" in choice["message"]["content"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "stop"
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_a_text_is_continued_until_max_tokens(engine: Engine) -> None:
    reply = json.loads(await engine.generate(builders.make_completion_call(max_tokens=5)))

    assert reply["object"] == "text_completion"
    assert reply["choices"][0]["text"]
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 5


async def test_the_same_greedy_question_has_the_same_answer(engine: Engine) -> None:
    first, second = [
        json.loads(await engine.generate(builders.make_chat_call(max_tokens=12)))["choices"] for _ in range(2)
    ]
    assert first == second


async def test_the_answer_carries_the_id_of_the_request(engine: Engine) -> None:
    reply = json.loads(await engine.generate(builders.make_chat_call(max_tokens=1)))
    assert reply["id"] == "chatcmpl-test"


async def test_a_streamed_chat_names_its_role_then_sends_its_text_and_its_end(engine: Engine) -> None:
    events = await _events(engine, builders.make_chat_call(max_tokens=4, ignore_eos=True))

    choices = [event["choices"][0] for event in events]
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert choices[0]["delta"]["role"] == "assistant"
    assert "".join(choice["delta"].get("content") or "" for choice in choices)
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length"]


async def test_a_streamed_text_comes_in_pieces_that_join_to_the_whole_one(engine: Engine) -> None:
    call = builders.make_completion_call(max_tokens=6)
    whole = json.loads(await engine.generate(call))["choices"][0]["text"]

    events = await _events(engine, call)

    assert len(events) > 1
    assert "".join(event["choices"][0]["text"] for event in events) == whole


async def test_a_stream_that_asks_for_usage_ends_with_it(engine: Engine) -> None:
    options = {"include_usage": True}
    events = await _events(engine, builders.make_chat_call(max_tokens=4, ignore_eos=True, stream_options=options))

    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_a_cancelled_request_leaves_the_batch(engine: Engine, stream: bool) -> None:
    call = builders.make_chat_call(max_tokens=LONG, ignore_eos=True)
    running = asyncio.create_task(_drain(engine, call) if stream else engine.generate(call))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    running.cancel()

    await builders.until_gauges(engine, lambda gauges: gauges.running == 0)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_closed_stream_leaves_the_batch(engine: Engine) -> None:
    stream = engine.stream(builders.make_chat_call(max_tokens=LONG, ignore_eos=True))
    await anext(stream)
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    await stream.aclose()

    await builders.until_gauges(engine, lambda gauges: gauges.running == 0)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"messages": [{"role": "user", "content": "word " * 40_000}]}, 400, "input_tokens"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"model": "another"}, 404, "model"),
    ],
    ids=["too long a prompt", "no tokens", "unknown model"],
)
async def test_a_wrong_request_is_refused_in_openais_envelope(
    engine: Engine, fields: dict[str, Any], status: int, param: str
) -> None:
    with pytest.raises(EngineRefused) as refused:
        await engine.generate(builders.make_chat_call(**fields))

    error = json.loads(refused.value.body)["error"]
    assert refused.value.status == status
    assert error["param"] == param
    assert error["message"]


async def test_a_refused_stream_raises_before_its_first_piece(engine: Engine) -> None:
    with pytest.raises(EngineRefused):
        await anext(engine.stream(builders.make_chat_call(max_tokens=0)))


async def test_what_the_worker_sets_wins_over_the_body(engine: Engine) -> None:
    call = builders.make_chat_call(max_tokens=1, stream=True)
    assert json.loads(await engine.generate(call))["object"] == "chat.completion"
    call = dataclasses.replace(call, body=call.body.replace(b"true", b"false"))
    assert len(await _events(engine, call)) > 0


async def test_every_priority_is_taken(engine: Engine) -> None:
    calls = [builders.make_chat_call(max_tokens=2, priority=priority) for priority in (0, 1, 2)]
    replies = await asyncio.gather(*map(engine.generate, calls))
    assert all(json.loads(reply)["choices"] for reply in replies)


async def test_an_engine_tells_the_size_of_its_kv_cache_and_its_use(engine: Engine) -> None:
    idle = await engine.gauges()
    assert idle.kv_capacity_tokens >= 8192
    assert (idle.running, idle.waiting) == (0, 0)

    stream = engine.stream(builders.make_chat_call(max_tokens=LONG, ignore_eos=True))
    await anext(stream)
    await builders.until_gauges(engine, lambda gauges: 0 < gauges.kv_used_share < 1)
    await stream.aclose()


async def test_more_requests_than_sequences_all_get_their_answer(engine: Engine) -> None:
    calls = [builders.make_chat_call(f"Tale {number}", max_tokens=3) for number in range(40)]
    assert len(await asyncio.gather(*map(engine.generate, calls))) == 40


async def test_a_stopped_engine_leaves_no_process_and_refuses_work(child: Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    assert builders.processes_of(socket_path)

    await engine.stop()

    assert engine.exited.is_set()
    assert not builders.processes_of(socket_path)
    with pytest.raises(EngineGone):
        await engine.generate(builders.make_chat_call())


async def test_when_the_server_is_killed_nothing_of_the_engine_stays(child: Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    running = asyncio.create_task(engine.generate(builders.make_chat_call(max_tokens=LONG, ignore_eos=True)))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    os.kill(_server(family), signal.SIGKILL)

    with pytest.raises(EngineGone):
        await running
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    await builders.until_gone(*family)


async def test_no_request_is_blamed_when_any_process_of_the_engine_dies(child: Child) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    core = [pid for pid, command in family.items() if "EngineCore" in command] or [_server(family)]
    call = builders.make_chat_call(max_tokens=LONG, ignore_eos=True)
    running = [asyncio.create_task(engine.generate(call)) for _ in range(2)]
    await builders.until_gauges(engine, lambda gauges: gauges.running == 2)

    os.kill(core[0], signal.SIGKILL)

    for task in running:
        with pytest.raises(EngineGone):
            await task
    await asyncio.wait_for(engine.exited.wait(), builders.DEADLINE_SECONDS)
    await builders.until_gone(*family)


async def test_a_healthy_engine_that_makes_no_progress_falls_and_nothing_of_it_stays(
    child: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, socket_path = child[0], child[1].socket_path
    family = builders.processes_of(socket_path)
    running = asyncio.create_task(engine.generate(builders.make_chat_call(max_tokens=LONG, ignore_eos=True)))
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
    return asyncio.create_task(engine.generate(builders.make_chat_call(HANGS)))


def _server(family: dict[int, str]) -> int:
    """The engine's own first process: not the shim, whose command line repeats it."""
    return next(pid for pid, command in family.items() if "--uds" in command and "workers.shim" not in command)


async def _drain(engine: Engine, call: Any) -> bytes:
    return b"".join([piece async for piece in engine.stream(call)])


async def _events(engine: Engine, call: Any) -> list[dict[str, Any]]:
    """Stream to the end; check the framing, and return what is in it."""
    events = (await _drain(engine, call)).decode().removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    *chunks, done = [event.removeprefix("data: ") for event in events]
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]
