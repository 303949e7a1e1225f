"""What goes to the engine, and what is read of its answer."""

import json

import pytest

from inference import fields
from inference.states import Endpoint
from workers import answers


def test_a_plain_answer_is_stored_as_it_came_and_read_for_counts_and_reason() -> None:
    text = '{"choices": [{"finish_reason": "length"}], "usage": {"prompt_tokens": 4, "completion_tokens": 9}}'
    completed = answers.whole(text.encode())
    assert completed.result == text
    assert (completed.finish_reason, completed.prompt_tokens, completed.output_tokens) == ("length", 4, 9)


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'{"choices": 3}', b'{"choices": [[]]}', b"\xff"])
def test_what_is_no_completion_is_an_error(answer: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        answers.whole(answer)


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (rb"half \ud83d", "half \ufffd"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\uDE00", "\ufffd"),
        (b"a raw \0", "a raw \0"),
        (b"cut \xf0\x9f\x98", "cut \ufffd"),
        (rb"C:\\ud83d", r"C:\ud83d"),
    ],
)
def test_an_answer_that_no_database_or_client_takes_is_mended(said: bytes, read: str) -> None:
    answer = b'{"choices": [{"text": "%b", "finish_reason": "stop"}]}' % said
    event = b'data: {"choices": [{"index": 0, "text": "%b", "finish_reason": "stop"}]}\n\n' % said
    streamed = answers.streamed([event], Endpoint.COMPLETIONS, first_token_at=None)
    for completed in (answers.whole(answer), streamed):
        assert "\0" not in completed.result
        assert json.loads(completed.result.encode())["choices"][0]["text"] == read
        assert completed.finish_reason == "stop"


def test_an_escaped_nul_is_kept_as_it_came() -> None:
    answer = rb'{"choices": [{"text": "a\u0000b", "finish_reason": "st\u0000op"}]}'
    completed = answers.whole(answer)
    assert completed.result == answer.decode()
    assert completed.finish_reason == "st\ufffdop"


@pytest.mark.parametrize("count", ["-1", "2147483648", "1e3", "true", '"7"', "null", "[]"])
def test_a_count_that_no_column_holds_is_no_count(count: str) -> None:
    usage = f'{{"prompt_tokens": {count}, "completion_tokens": {count}}}'
    completed = answers.whole(f'{{"choices": [], "usage": {usage}}}'.encode())
    assert (completed.prompt_tokens, completed.output_tokens) == (None, None)


def test_a_stream_is_stored_as_one_answer() -> None:
    event = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
    completed = answers.streamed([event], Endpoint.CHAT, first_token_at=None)
    assert json.loads(completed.result)["choices"][0]["message"]["content"] == "hi"
    assert completed.finish_reason == "stop"
    assert completed.output_tokens is None


@pytest.mark.parametrize("request_", ['{"model": "m"}', '{"model": "m"} \n', "{}"])
def test_usage_is_asked_for_though_the_client_did_not(request_: str) -> None:
    body, wanted = answers.with_usage(request_)
    assert json.loads(body) == {**json.loads(request_), "stream_options": {"include_usage": True}}
    assert not wanted


def test_a_client_that_asked_for_usage_gets_it_and_keeps_its_other_options() -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body, wanted = answers.with_usage(json.dumps({"stream_options": options}))
    assert json.loads(body)["stream_options"] == options
    assert wanted


def test_a_client_that_declined_usage_does_not_get_it() -> None:
    body, wanted = answers.with_usage('{"stream_options": {"include_usage": false}}')
    assert json.loads(body)["stream_options"] == {"include_usage": True}
    assert not wanted


def test_a_prompt_that_mentions_the_options_changes_nothing() -> None:
    request_ = json.dumps({"messages": [{"content": '"stream_options": {}'}]})
    body, wanted = answers.with_usage(request_)
    assert json.loads(body)["messages"] == json.loads(request_)["messages"]
    assert not wanted


def test_a_refusal_tells_the_engines_words_but_never_quotes_the_request() -> None:
    error = {"message": "1 validation error: {'type': 'missing', 'input': {'content': 'my secret'}}"}
    for body in ({"error": error}, error):
        message = answers.refusal(json.dumps(body).encode())
        assert message.startswith("1 validation error")
        assert "secret" not in message


def listed(entry: str) -> str:
    return f"1 validation error:\n  {{{entry}, 'input': {{'content': 'my secret'}}}}"


@pytest.mark.parametrize(
    ("param", "message", "path", "said"),
    [
        (
            "body.tools.0.function",
            listed("'loc': 'body.tools', 'msg': 'Field required'"),
            "tools[0].function",
            "tools[0].function: Field required",
        ),
        ("body.seed", listed("'msg': \"Input should be '1'\""), "seed", "seed: Input should be '1'"),
        ("tools", listed("'msg': 'Value error, None `here`.'"), "tools", "tools: None `here`."),
        (
            "body.response_format.ResponseFormat.type",
            "Wrong.",
            "response_format.type",
            "response_format.type: Wrong.",
        ),
        ("top_p", "top_p must be 1, got 0. (parameter=top_p, value=0)", "top_p", "top_p must be 1, got 0."),
        (None, "min_tokens must be at most 2, got 9.", "min_tokens", "min_tokens must be at most 2, got 9."),
        ("top_k", "`top_k` must be set.", "top_k", "`top_k` must be set."),
    ],
)
def test_a_refusal_begins_with_the_field_that_the_engine_blames(
    param: str | None, message: str, path: str, said: str
) -> None:
    told = answers.refusal(json.dumps({"error": {"message": message, "param": param}}).encode())
    assert (told, fields.blamed(told)) == (said, path)


@pytest.mark.parametrize("param", [None, "", "body", "input_tokens", 7, "no: field", "a b"])
def test_a_refusal_that_blames_no_field_names_none(param: object) -> None:
    told = answers.refusal(json.dumps({"error": {"message": "Too long a prompt.", "param": param}}).encode())
    assert (told, fields.blamed(told)) == ("Too long a prompt.", None)


def test_a_refusal_can_be_stored_whatever_the_engine_said() -> None:
    assert answers.refusal(rb'{"error": {"message": "bad \u0000 and \ud83d"}}') == "bad \ufffd and \ufffd"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"error": "x"}', b'{"error": {}}'])
def test_a_refusal_without_a_readable_message_still_says_something(body: bytes) -> None:
    assert answers.refusal(body) == "The engine refused the request."
