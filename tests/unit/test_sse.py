"""The engine's stream: cut into events, and put together into the answer it stands for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.states import Endpoint
from workers import sse


def event(**body: Any) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def chat(index: int = 0, finish: str | None = None, **delta: Any) -> bytes:
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return event(id="chatcmpl-1", object="chat.completion.chunk", created=7, model="m", choices=[choice])


USAGE = event(id="chatcmpl-1", choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
DONE = b"data: [DONE]\n\n"
STREAM = [
    chat(role="assistant", content=""),
    chat(content="Hel"),
    chat(content="lö"),
    chat(finish="stop"),
    USAGE,
    DONE,
]


@given(st.lists(st.integers(1, 40), max_size=30))
def test_however_the_bytes_arrive_the_events_are_the_same(sizes: list[int]) -> None:
    whole, splitter, events = b"".join(STREAM), sse.Splitter(), []
    for size in [*sizes, len(whole)]:
        events += splitter.feed(whole[:size])
        whole = whole[size:]
    assert events == STREAM


def test_an_event_cut_off_is_no_event() -> None:
    splitter = sse.Splitter()
    assert splitter.feed(b"data: {") == []
    assert splitter.feed(b"}\n") == []
    assert splitter.feed(b"\n") == [b"data: {}\n\n"]


def test_only_the_event_with_nothing_but_token_counts_is_usage_only() -> None:
    assert [sse.is_usage_only(e) for e in STREAM] == [False, False, False, False, True, False]
    with_choices = event(choices=[{"index": 0}], usage={"total_tokens": 1})
    assert not sse.is_usage_only(with_choices)
    assert not sse.is_usage_only(event(choices=[], usage=None))


def test_a_prompt_that_talks_of_usage_is_passed_on() -> None:
    assert not sse.is_usage_only(chat(content='"usage"'))


def test_a_chat_stream_becomes_a_chat_completion() -> None:
    answer = sse.assemble(STREAM, Endpoint.CHAT)
    assert answer == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": "Hellö"},
                "logprobs": None,
            }
        ],
    }


def test_a_text_stream_becomes_a_text_completion() -> None:
    pieces = [
        event(id="c", choices=[{"index": 0, "text": text, "finish_reason": None}]) for text in ("Once ", "upon")
    ]
    answer = sse.assemble([*pieces, DONE], Endpoint.COMPLETIONS)
    assert answer["object"] == "text_completion"
    assert answer["choices"][0]["text"] == "Once upon"


def test_choices_are_kept_apart_and_in_order() -> None:
    answer = sse.assemble([chat(1, content="b"), chat(0, content="a"), chat(1, content="b")], Endpoint.CHAT)
    assert [c["message"]["content"] for c in answer["choices"]] == ["a", "bb"]


def test_tool_calls_grow_piece_by_piece() -> None:
    pieces = [
        chat(tool_calls=[{"index": 0, "id": "call-1", "type": "function", "function": {"name": "look"}}]),
        chat(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
        chat(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
    ]
    message = sse.assemble(pieces, Endpoint.CHAT)["choices"][0]["message"]
    assert message["tool_calls"] == [
        {"function": {"name": "look", "arguments": '{"a":1}'}, "id": "call-1", "type": "function"}
    ]


def test_log_probabilities_go_on_from_piece_to_piece() -> None:
    def piece(token: str) -> bytes:
        return event(
            choices=[{"index": 0, "delta": {"content": token}, "logprobs": {"content": [{"token": token}]}}]
        )

    choice = sse.assemble([piece("a"), piece("b")], Endpoint.CHAT)["choices"][0]
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


def test_an_error_in_mid_stream_is_an_error() -> None:
    with pytest.raises(ValueError, match="error in mid-stream"):
        sse.assemble([chat(content="a"), event(error={"message": "secret prompt"})], Endpoint.CHAT)


def test_the_end_mark_is_known() -> None:
    assert [sse.is_done(e) for e in STREAM] == [False] * 5 + [True]
