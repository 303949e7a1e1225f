"""The whole stack on real vLLM with the bundled model: the main job, as a user sees it."""

import json
from collections.abc import Iterator

import openai
import pytest

from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = [pytest.mark.engine, pytest.mark.timeout(420)]

QUESTION: list[openai.types.chat.ChatCompletionMessageParam] = [
    {"role": "user", "content": "What is the capital of France?"}
]
LOAD_SECONDS = 300.0
"""Patience with a busy machine; an idle one takes 40."""


@pytest.fixture(scope="module")
def loading() -> Iterator[tuple[Stack, list[str]]]:
    """A stack whose vLLM has only begun to load, with jobs already accepted."""
    with stacks.running("--workers", "0") as stack:
        ids = fleet.submit(stack, 6, tiers=("realtime", "standard", "bulk"), max_tokens=8)
        with fleet.worker(stack, "vllm", "--engine", "vllm") as worker:
            worker.wait_for("loading")
            yield stack, ids


@pytest.fixture(scope="module")
def ready(loading: tuple[Stack, list[str]]) -> Stack:
    """The same once it is ready; held until then: what was claimed while it loaded."""
    stack, ids = loading
    claimed_early = []

    def is_ready() -> bool:
        leases, worker = fleet.leases(stack), fleet.registry(stack)["vllm"]  # leases first: states only go on
        if leases and worker["state"] in {"starting", "loading"}:
            claimed_early.append(leases)
        return bool(worker["state"] == "ready")

    until(is_ready, seconds=LOAD_SECONDS, what="vLLM is ready")
    assert not claimed_early
    assert {job["status"] for job in fleet.wait_until_finished(stack, ids, seconds=120)} == {"succeeded"}
    return stack


@pytest.fixture
def sdk(ready: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{ready.base_url}/v1", api_key=ready.api_key, max_retries=0) as client:
        yield client


def model(sdk: openai.OpenAI) -> str:
    return sdk.models.list().data[0].id


def test_it_answers_a_chat_and_counts_tokens_as_the_engine_does(sdk: openai.OpenAI, ready: Stack) -> None:
    answer = sdk.chat.completions.with_raw_response.create(
        model=model(sdk), messages=QUESTION, max_tokens=16, temperature=0
    )
    chat = answer.parse()

    assert "Paris" in (chat.choices[0].message.content or "")
    assert chat.usage is not None
    assert fleet.job(ready, answer.headers["x-sluice-job-id"])["prompt_tokens"] == chat.usage.prompt_tokens


def test_it_streams_the_same_answer_and_keeps_it_on_record(sdk: openai.OpenAI, ready: Stack) -> None:
    with sdk.chat.completions.with_streaming_response.create(
        model=model(sdk), messages=QUESTION, max_tokens=16, temperature=0, stream=True
    ) as answer:
        job_id = answer.headers["x-sluice-job-id"]
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]

    assert events[-1] == "[DONE]"
    pieces = [choice["delta"].get("content") or "" for e in events[:-1] for choice in json.loads(e)["choices"]]
    assert "Paris" in "".join(pieces)
    assert len(pieces) > 3
    [job] = fleet.wait_until_finished(ready, [job_id])
    assert job["result"]["choices"][0]["message"]["content"] == "".join(pieces)


def test_a_cancel_is_confirmed_by_the_engines_own_gauge(ready: Stack) -> None:
    def running() -> int:
        return fleet.engine_gauge(ready, "vllm", "vllm:num_requests_running")

    [job_id] = fleet.submit(ready, 1, max_tokens=2_000, ignore_eos=True)
    until(lambda: running() == 1, seconds=30, what="the engine runs it")
    with ready.client() as client:
        client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status()

    # vLLM writes its gauges after each step and every few seconds when idle.
    until(lambda: running() == 0, what="the engine runs nothing")
    assert fleet.job(ready, job_id)["status"] == "cancelled"


def test_a_client_that_leaves_a_stream_ends_it_in_the_engine(ready: Stack, sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.create(
        model=model(sdk), messages=QUESTION, max_tokens=2_000, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        next(iter(stream))

    until(
        lambda: fleet.engine_gauge(ready, "vllm", "vllm:num_requests_running") == 0,
        what="the engine runs nothing",
    )
