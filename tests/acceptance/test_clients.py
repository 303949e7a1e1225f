"""Clients that leave, that cancel, that come by the thousand, and the openai SDK as it is."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from tests.acceptance import fleet, stacks
from tests.acceptance.stacks import Stack
from tests.waiting import until

ENDLESS = 4_000
"""Tokens that take a slow engine more than three minutes: what is gone before has been aborted."""
MANY = 1_000


@pytest.fixture(scope="module")
def slow() -> Iterator[Stack]:
    """A stack whose jobs can be met while they run."""
    with stacks.running(env={"SLUICE_SIM_ARGS": fleet.SLOW}) as stack:
        yield stack


def running(stack: Stack) -> int:
    return fleet.engine_gauge(stack, "worker-1", "vllm:num_requests_running")


def chat(stack: Stack, **fields: object) -> dict[str, object]:
    with stack.client() as client:
        model = client.get("/v1/models").json()["data"][0]["id"]
    return {"model": model, "messages": [{"role": "user", "content": "Tell me a long story."}], **fields}


def test_a_stream_that_its_client_leaves_is_gone_from_the_engine(slow: Stack) -> None:
    body = chat(slow, max_tokens=ENDLESS, ignore_eos=True, stream=True)
    with slow.client() as client, client.stream("POST", "/v1/chat/completions", json=body) as answer:
        output = answer.iter_raw()  # a name keeps it: an iterator that is collected closes the connection
        next(output)
        job_id = answer.headers["x-sluice-job-id"]
        assert running(slow) == 1

    until(lambda: running(slow) == 0, what="the engine runs nothing")
    assert fleet.job(slow, job_id)["status"] == "cancelled"


def test_a_web_process_that_is_stopped_cancels_the_jobs_of_its_open_calls(slow: Stack) -> None:
    body, old = chat(slow, max_tokens=ENDLESS, ignore_eos=True), slow.pid("web")

    def call() -> httpx.Response:
        with slow.client() as client:
            return client.post("/v1/chat/completions", json=body)

    with ThreadPoolExecutor() as threads:
        answer = threads.submit(call)
        until(lambda: running(slow) == 1, what="the engine runs it")
        os.kill(old, signal.SIGTERM)
        refusal = answer.result(timeout=30)

    assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "stopping")
    until(lambda: running(slow) == 0, what="the engine runs nothing")
    until(lambda: fleet.is_whole(slow) and slow.pid("web") != old, seconds=40, what="the web process is back")
    assert fleet.job(slow, refusal.headers["x-sluice-job-id"])["status"] == "cancelled"


def test_a_plain_call_that_its_client_leaves_is_gone_from_the_engine(slow: Stack) -> None:
    async def leave() -> None:
        headers = {"Authorization": f"Bearer {slow.api_key}"}
        async with httpx.AsyncClient(
            base_url=slow.base_url, headers=headers, trust_env=False, timeout=60
        ) as client:
            body = chat(slow, max_tokens=ENDLESS, ignore_eos=True)
            call = asyncio.create_task(client.post("/v1/chat/completions", json=body))
            while await asyncio.to_thread(running, slow) == 0:  # noqa: ASYNC110 (a fact of another process)
                await asyncio.sleep(0.02)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    asyncio.run(leave())

    until(lambda: running(slow) == 0, what="the engine runs nothing")


def test_a_cancelled_job_is_gone_from_the_engine(slow: Stack) -> None:
    [job_id] = fleet.submit(slow, 1, max_tokens=ENDLESS, ignore_eos=True)
    until(lambda: running(slow) == 1, what="the engine runs it")
    with slow.client() as client:
        cancelled = client.post(f"/api/v1/jobs/{job_id}/cancel/").raise_for_status().json()

    assert cancelled["status"] == "cancelled"
    until(lambda: running(slow) == 0, what="the engine runs nothing")
    assert [e["kind"] for e in fleet.job(slow, job_id)["history"]] == ["queued", "running", "cancelled"]


async def _stream(client: httpx.AsyncClient, body: dict[str, object]) -> bytes:
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        return (await answer.aread()).rstrip()[-12:]


async def _open_many(stack: Stack, body: dict[str, object]) -> list[bytes]:
    headers = {"Authorization": f"Bearer {stack.api_key}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=stack.base_url, headers=headers, trust_env=False, timeout=240, limits=limits
    ) as client:
        streams = asyncio.gather(*(_stream(client, body) for _ in range(MANY)))
        while await asyncio.to_thread(fleet.waiting, stack) < MANY:
            assert not streams.done(), await streams
            await asyncio.sleep(0.1)
        with fleet.worker(stack, "late", sim="--decode-tps=200"):
            return await streams


def test_one_web_process_holds_a_thousand_streams_and_each_gets_its_end(workerless: Stack) -> None:
    ends = asyncio.run(_open_many(workerless, chat(workerless, max_tokens=8, stream=True)))

    assert ends == [b"data: [DONE]"] * MANY


@pytest.fixture
def sdk(stack: Stack) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{stack.base_url}/v1", api_key=stack.api_key, max_retries=0) as client:
        yield client


def test_the_openai_sdk_lists_chats_streams_and_completes(sdk: openai.OpenAI) -> None:
    model = sdk.models.list().data[0].id
    question: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]

    chat = sdk.chat.completions.create(model=model, messages=question, max_tokens=8, service_tier="priority")
    stream = sdk.chat.completions.create(model=model, messages=question, max_tokens=8, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    completion = sdk.completions.create(model=model, prompt="Once", max_tokens=8)

    assert chat.choices[0].message.content
    assert chat.usage is not None
    assert (chat.usage.completion_tokens, chat.service_tier) == (8, "priority")
    assert text
    assert completion.choices[0].text


def test_the_openai_sdk_raises_its_own_errors(sdk: openai.OpenAI, stack: Stack) -> None:
    model = sdk.models.list().data[0].id
    question: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]
    long: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "word " * 20_000}]

    with pytest.raises(openai.AuthenticationError):
        sdk.with_options(api_key="sk-wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="no-such-model"):
        sdk.chat.completions.create(model="no-such-model", messages=question)
    with pytest.raises(openai.BadRequestError, match="8192"):
        sdk.chat.completions.create(model=model, messages=long)


def test_nothing_refused_is_queued(stack: Stack) -> None:
    before = fleet.count(stack, "queued")
    with stack.client() as client:
        for content in (b"no json", b'{"messages": []}', b"\xff\xfe", json.dumps({"messages": 3}).encode()):
            answer = client.post("/v1/chat/completions", content=content)
            assert 400 <= answer.status_code < 500, answer.text

    assert fleet.count(stack, "queued") == before
    assert fleet.waiting(stack) == 0
