"""What every engine answers: the simulated one stands for vLLM in all other tests because both pass these."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from tests import engines as builders
from workers.engine import Engine, EngineRefused

pytestmark = [pytest.mark.once, pytest.mark.asyncio(loop_scope="session")]


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
    call = builders.make_long_call()
    running = asyncio.create_task(_drain(engine, call) if stream else engine.generate(call))
    await builders.until_gauges(engine, lambda gauges: gauges.running == 1)

    running.cancel()

    await builders.until_gauges(engine, lambda gauges: gauges.running == 0)
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_closed_stream_leaves_the_batch(engine: Engine) -> None:
    stream = engine.stream(builders.make_long_call())
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

    stream = engine.stream(builders.make_long_call())
    await anext(stream)
    await builders.until_gauges(engine, lambda gauges: 0 < gauges.kv_used_share < 1)
    await stream.aclose()


async def test_more_requests_than_sequences_all_get_their_answer(engine: Engine) -> None:
    calls = [builders.make_chat_call(f"Tale {number}", max_tokens=3) for number in range(40)]
    assert len(await asyncio.gather(*map(engine.generate, calls))) == 40


async def _drain(engine: Engine, call: Any) -> bytes:
    return b"".join([piece async for piece in engine.stream(call)])


async def _events(engine: Engine, call: Any) -> list[dict[str, Any]]:
    """Stream to the end; check the framing, and return what is in it."""
    events = (await _drain(engine, call)).decode().removesuffix("\n\n").split("\n\n")
    assert all(event.startswith("data: ") for event in events)
    *chunks, done = [event.removeprefix("data: ") for event in events]
    assert done == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]
