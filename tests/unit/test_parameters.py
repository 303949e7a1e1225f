"""What a body asks of the engine, and what is refused before it is queued."""

from typing import Any

import pytest
from openai.types import completion_create_params as completion_params
from openai.types.chat import completion_create_params as chat_params

from inference import errors, validation
from inference.states import Endpoint
from tests import factories

CHAT, COMPLETIONS = Endpoint.CHAT, Endpoint.COMPLETIONS
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def make_body(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    return factories.make_chat(**fields) if endpoint is CHAT else {"model": "m", "prompt": "Once", **fields}


def refusal(endpoint: Endpoint = CHAT, **fields: Any) -> errors.InvalidRequest:
    with pytest.raises(errors.InvalidRequest) as caught:
        validation.clean(endpoint, make_body(endpoint, **fields))
    return caught.value


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"top_p": 0}, "top_p", "top_p must be a number above 0 and at most 1, not 0"),
        ({"repetition_penalty": 0.0}, "repetition_penalty", "above 0 and at most 100, not 0.0"),
        ({"temperature": -0.1}, "temperature", "temperature must be a number from 0 to 2, not -0.1"),
        ({"top_k": -2}, "top_k", "-2"),
        ({"stop_token_ids": ["x"]}, "stop_token_ids[0]", "'x'"),
        ({"stop_token_ids": [1, -1]}, "stop_token_ids[1]", "-1"),
        ({"stop_token_ids": 3}, "stop_token_ids", "3"),
        ({"allowed_token_ids": [True]}, "allowed_token_ids[0]", "true"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens", "at most the 8 tokens"),
        ({"min_tokens": 9, "max_completion_tokens": 8}, "min_tokens", "at most the 8 tokens"),
        ({"stop": list("abcde")}, "stop", "at most 4 strings"),
        ({"bad_words": [5]}, "bad_words", "a list of 1"),
        ({"bad_words": "a"}, "bad_words", "must be a list of non-empty strings, not 'a'"),
        ({"top_logprobs": 3}, "top_logprobs", "takes logprobs to be true"),
        ({"logit_bias": {"a": 1}}, "logit_bias.a", "token ids"),
        ({"logit_bias": {"7": "much"}}, "logit_bias.7", "'much'"),
        ({"response_format": "json"}, "response_format", "'json'"),
        ({"response_format": {}}, "response_format.type", "missing"),
        ({"response_format": {"type": "yaml"}}, "response_format.type", "'yaml'"),
        ({"response_format": {"type": ["text"]}}, "response_format.type", "a list of 1"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", "missing"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.name",
            "missing",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": 5}}},
            "response_format.json_schema.schema",
            "5",
        ),
        ({"stream": True, "stream_options": {"include_usage": 5}}, "stream_options.include_usage", "5"),
        (
            {"stream_options": {"include_usage": True}},
            "stream_options",
            "stream_options takes stream to be true, but it is missing or null",
        ),
        ({"stream": False, "stream_options": {}}, "stream_options", "takes stream to be true, not false"),
        ({"priority": "x"}, "priority", "priority must be a whole number from"),
        ({"tools": []}, "tools", "at least one"),
        ({"tools": [{"function": {"name": "f", "strict": 1}}]}, "tools[0].function.strict", "1"),
        ({"tools": [{"type": "web"}]}, "tools[0].type", "'web'"),
        ({"tools": [{"type": "function"}]}, "tools[0].function", "missing"),
        ({"tools": [{"function": {"name": "f", "parameters": 5}}]}, "tools[0].function.parameters", "5"),
        ({"tool_choice": "auto"}, "tool_choice", "takes tools"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice", "'any'"),
        ({"tools": [TOOL], "tool_choice": 5}, "tool_choice", "5"),
        ({"tools": [TOOL], "tool_choice": {"function": 1}}, "tool_choice.function", "1"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "hear"}}},
            "tool_choice.function.name",
            "'hear'",
        ),
        ({"chat_template_kwargs": {"tools": 5}}, "chat_template_kwargs.tools", "not accepted"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "chat_template_kwargs.chat_template", "not accepted"),
        (
            {"continue_final_message": True, "add_generation_prompt": True},
            "add_generation_prompt",
            "beside continue_final_message",
        ),
        ({"continue_final_message": True}, "add_generation_prompt", "missing"),
        ({"skip_special_tokens": "no"}, "skip_special_tokens", "'no'"),
        ({"reasoning_effort": 3}, "reasoning_effort", "3"),
    ],
    ids=str,
)
def test_what_an_engine_would_refuse_is_refused_by_its_name(fields: dict[str, Any], param: str, said: str) -> None:
    error = refusal(**fields)
    assert (error.param, error.status) == (param, 400)
    assert said in error.message


@pytest.mark.parametrize(
    ("endpoint", "documented"),
    [(CHAT, chat_params.CompletionCreateParamsBase), (COMPLETIONS, completion_params.CompletionCreateParamsBase)],
    ids=["chat", "completions"],
)
def test_every_field_that_openai_documents_is_refused_by_its_name_if_its_type_is_wrong(
    endpoint: Endpoint, documented: type
) -> None:
    taken = [*documented.__annotations__, "stream"]
    assert len(taken) > 15
    for name in taken:
        error = refusal(endpoint, **{name: [[True]]})
        assert (error.param or "").startswith(name), error.message


def test_what_a_completion_ends_before_is_a_text() -> None:
    assert refusal(COMPLETIONS, suffix=3).message == "suffix must be a string, not 3"


def test_a_completion_may_not_have_to_be_longer_than_the_sixteen_tokens_it_gets() -> None:
    assert refusal(COMPLETIONS, min_tokens=17).param == "min_tokens"


@pytest.mark.parametrize(
    "fields",
    [
        {"top_p": 1, "repetition_penalty": 0.01, "min_p": 0, "temperature": 0, "top_k": -1},
        {"min_tokens": 8, "max_tokens": 8, "stop_token_ids": [], "stop": ["a", "b", "c", "d"]},
        {"logprobs": True, "top_logprobs": 20, "logit_bias": {"7": -500}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look"}}},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {"tool_choice": "none", "chat_template_kwargs": {"enable_thinking": False}},
        {"continue_final_message": True, "add_generation_prompt": False, "top_logprobs": 0},
    ],
    ids=str,
)
def test_what_an_engine_takes_passes_as_it_came(fields: dict[str, Any]) -> None:
    body = make_body(CHAT, **fields)
    assert validation.clean(CHAT, body).body == body


def test_null_is_as_if_the_field_were_not_there() -> None:
    nulls = dict.fromkeys(("min_tokens", "echo", "stop_token_ids", "skip_special_tokens", "tool_choice", "n"))
    assert validation.clean(CHAT, make_body(CHAT, **nulls)).body == make_body(CHAT)
