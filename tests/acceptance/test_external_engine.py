"""A stack on somebody else's engine: the same to its users, and the engine's key known to none but the engine."""

from collections.abc import Iterator

import openai
import pytest

from tests import engines as builders
from tests import factories
from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

KEY = "sk-known-to-the-engine-only"


@pytest.fixture(scope="module")
def sim() -> Iterator[builders.TcpSim]:
    """An engine that refuses what OpenAI does not know, as stricter ones do."""
    with builders.tcp_sim("--refuses", "priority", key=KEY) as sim:
        yield sim


@pytest.fixture(scope="module")
def stack(sim: builders.TcpSim) -> Iterator[Stack]:
    arguments = ("--engine", "external", "--engine-url", f"{sim.url}/v1")
    with stacks.running(*arguments, env={"SLUICE_ENGINE_KEY": KEY}) as stack:
        yield stack


def test_a_client_is_answered_as_by_any_engine(stack: Stack) -> None:
    question: list[openai.types.chat.ChatCompletionMessageParam] = [
        {"role": "user", "content": "What is the capital of France?"}
    ]
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key=stack.api_key, max_retries=0) as client:
        ask = {"model": factories.MODEL, "messages": question}
        whole = client.chat.completions.create(**ask, service_tier="priority")  # type: ignore[call-overload]
        stream = client.chat.completions.create(**ask, stream=True)  # type: ignore[call-overload]
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]

    assert "Paris" in whole.choices[0].message.content
    assert "".join(pieces) == whole.choices[0].message.content


def test_the_worker_is_seen_with_an_engine_that_is_elsewhere(stack: Stack) -> None:
    row = fleet.registry(stack)["worker-1"]
    assert (row["state"], row["engine"], row["device"]) == ("ready", "external", "external")
    assert row["kv_capacity_tokens"] > 0


def test_a_cancel_reaches_the_engine(stack: Stack, sim: builders.TcpSim) -> None:
    body = {**factories.make_chat(), "max_tokens": 6_000, "ignore_eos": True}  # a minute's work
    with stack.client() as client:
        job = client.post("/api/v1/jobs/", json={"body": body}).raise_for_status().json()
        until(lambda: sim.gauge("vllm:num_requests_running") == 1, what="the engine runs it")
        client.post(f"/api/v1/jobs/{job['id']}/cancel/").raise_for_status()
    until(lambda: sim.gauge("vllm:num_requests_running") == 0, what="the engine runs nothing")


def test_the_key_is_on_no_command_line_and_in_no_log(stack: Stack) -> None:
    commands = [word for process in stack.processes() for word in process.cmdline()]
    logs = [path.read_text(errors="replace") for path in stack.folder.rglob("*.log")]
    assert len(commands) > 20
    assert KEY not in " ".join([*commands, *logs])
