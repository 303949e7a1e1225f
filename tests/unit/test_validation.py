"""What a body may hold, and what the caller hears otherwise."""

import tracemalloc
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from inference import errors, kinds, parameters, validation
from inference.states import Endpoint
from tests import factories

CHAT = Endpoint.CHAT
COMPLETIONS = Endpoint.COMPLETIONS


def refusal(endpoint: Endpoint, body: Any) -> errors.InvalidRequest:
    with pytest.raises(errors.InvalidRequest) as caught:
        validation.clean(endpoint, body)
    return caught.value


def make_completion(prompt: Any = "Once", **fields: Any) -> dict[str, Any]:
    return {"model": factories.MODEL, "prompt": prompt, **fields}


def test_a_plain_chat_passes_as_it_came() -> None:
    body = factories.make_chat(temperature=0.5, user="u-1", vllm_xargs={"a": 1})
    request = validation.clean(CHAT, body)

    assert request.body == body
    assert (request.model, request.max_tokens, request.stream) == (factories.MODEL, None, False)


def test_what_sluice_decides_is_not_passed_on() -> None:
    request = validation.clean(CHAT, factories.make_chat(service_tier="flex", priority=-9, request_id="mine"))

    assert request.service_tier == "flex"
    assert not {"service_tier", "priority", "request_id"} & request.body.keys()


@pytest.mark.parametrize("body", [None, [], "text", 1, True, [{"model": "m"}]])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    assert "body must be a JSON object" in refusal(CHAT, body).message


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"model": None}, "model", "missing"),
        ({"model": ""}, "model", "''"),
        ({"model": 7}, "model", "7"),
        ({"messages": None}, "messages", "missing"),
        ({"messages": []}, "messages", "a list of 0"),
        ({"messages": "Hi"}, "messages", "'Hi'"),
        ({"messages": [1]}, "messages[0]", "1"),
        ({"messages": [{"content": "Hi"}]}, "messages[0].role", "missing"),
        ({"messages": [{"role": "robot", "content": "Hi"}]}, "messages[0].role", "'robot'"),
        ({"messages": [{"role": [], "content": "Hi"}]}, "messages[0].role", "a list of 0"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "5"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "a list of 0"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]", "'x'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0].type",
            "'image_url'",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0].text",
            "missing",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": "x"}]}]},
            "messages[0].tool_calls[0].function",
            "missing",
        ),
        (
            {"messages": [{"role": "tool", "content": "42", "tool_call_id": 1}]},
            "messages[0].tool_call_id",
            "must be a string, not 1",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"name": "f"}}]}]},
            "messages[0].tool_calls[0].id",
            "1",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]}]},
            "messages[0].tool_calls[0].function.arguments",
            "5",
        ),
        ({"max_tokens": 0}, "max_tokens", "0"),
        ({"max_tokens": -1}, "max_tokens", "-1"),
        ({"max_tokens": "10"}, "max_tokens", "'10'"),
        ({"max_tokens": True}, "max_tokens", "not true"),
        ({"max_tokens": 1.5}, "max_tokens", "1.5"),
        ({"max_tokens": 10**18}, "max_tokens", "1000000000000000000"),
        ({"max_tokens": 10**30}, "max_tokens", "1000000000000000000000000000000"),
        ({"max_tokens": 10**5000}, "max_tokens", "more than 77 digits"),
        ({"max_completion_tokens": 0}, "max_completion_tokens", "0"),
        ({"n": 2}, "n", "2"),
        ({"n": True}, "n", "not true"),
        ({"n": [1]}, "n", "a list of 1"),
        ({"best_of": 3}, "best_of", "3"),
        ({"temperature": 2.5}, "temperature", "2.5"),
        ({"temperature": "hot"}, "temperature", "'hot'"),
        ({"temperature": float("nan")}, "temperature", "nan"),
        ({"top_p": float("inf")}, "top_p", "inf"),
        ({"presence_penalty": -3}, "presence_penalty", "-3"),
        ({"seed": 2**63}, "seed", "9223372036854775808"),
        ({"stream": 1}, "stream", "1"),
        ({"stream_options": []}, "stream_options", "a list of 0"),
        ({"stop": ["a", 1]}, "stop", "a list of 2"),
        ({"stop": ""}, "stop", "''"),
        ({"tools": [1]}, "tools", "a list of 1"),
        ({"logprobs": 3}, "logprobs", "3"),
        ({"top_logprobs": 21}, "top_logprobs", "21"),
        ({"service_tier": 5}, "service_tier", "5"),
        ({"chat_template": "{{ x }}"}, "chat_template", "not accepted"),
        ({"use_beam_search": True}, "use_beam_search", "not accepted"),
        ({"kv_transfer_params": {"remote_host": "elsewhere"}}, "kv_transfer_params", "not accepted"),
        ({"ec_transfer_params": {"remote_host": "elsewhere"}}, "ec_transfer_params", "not accepted"),
        ({"metadata": {"a": [1, {"b": "x\x00y"}]}}, "metadata.a[1].b", "NUL"),
        ({"messages": [{"role": "user", "content": "a\x00b"}]}, "messages[0].content", "NUL"),
        ({"messages": [{"role": "user", "content": "a\ud800b"}]}, "messages[0].content", "surrogates"),
        ({"metadata": {"\udfff": 1}}, "metadata", "surrogates"),
        ({"\x00": 1}, "body", "NUL"),
        ({"logit_bias": {"1": 10**400}}, "logit_bias.1", "more than 77 digits"),
    ],
)
def test_a_bad_field_is_named_with_its_value(fields: dict[str, Any], param: str, said: str) -> None:
    error = refusal(CHAT, factories.make_chat() | fields)

    assert error.param == param
    assert said in error.message
    assert error.status == 400


@pytest.mark.parametrize("prompt", [None, "", [], 5, True, {}, [""], [[]]], ids=str)
def test_a_prompt_must_be_text_or_token_ids(prompt: Any) -> None:
    assert refusal(COMPLETIONS, make_completion(prompt)).param == "prompt"


@pytest.mark.parametrize(
    ("prompt", "place", "said"),
    [
        ([7, -1], 1, "-1"),
        ([2**31], 0, "2147483648"),
        ([1, "a"], 1, "'a'"),
        ([[1, -1]], 1, "-1"),
        ([1, True], 1, "true"),
    ],
    ids=str,
)
def test_a_bad_token_id_is_named_with_its_place_and_the_limits(prompt: Any, place: int, said: str) -> None:
    error = refusal(COMPLETIONS, make_completion(prompt))
    assert error.param == f"prompt[{place}]"
    assert error.message == f"prompt[{place}] must be a token id from 0 to 2147483647, not {said}"


@pytest.mark.parametrize("prompt", [[True], [None]], ids=str)
def test_a_list_of_one_that_is_neither_is_refused(prompt: Any) -> None:
    assert refusal(COMPLETIONS, make_completion(prompt)).param == "prompt"


@pytest.mark.parametrize(
    ("prompt", "passed_on"), [("Hi", "Hi"), (["Hi"], "Hi"), ([1, 2], [1, 2]), ([[1, 2]], [1, 2])], ids=str
)
def test_one_prompt_may_come_in_four_forms(prompt: Any, passed_on: Any) -> None:
    assert validation.clean(COMPLETIONS, make_completion(prompt)).body["prompt"] == passed_on


@pytest.mark.parametrize("prompt", [["a", "b"], [[1], [2]]], ids=str)
def test_several_prompts_are_refused_with_advice(prompt: Any) -> None:
    assert "one prompt a request, not 2" in refusal(COMPLETIONS, make_completion(prompt)).message


def test_a_completion_without_a_limit_gets_sixteen_tokens() -> None:
    assert validation.clean(COMPLETIONS, make_completion()).max_tokens == 16
    assert validation.clean(COMPLETIONS, make_completion(max_tokens=None)).max_tokens == 16
    assert validation.clean(COMPLETIONS, make_completion(max_tokens=3)).max_tokens == 3


def test_a_chats_newer_limit_wins_and_is_the_one_that_messages_name() -> None:
    request = validation.clean(CHAT, factories.make_chat(max_tokens=5, max_completion_tokens=9))

    assert (request.max_tokens, request.max_tokens_field) == (9, "max_completion_tokens")


def test_an_assistant_may_say_nothing_when_it_calls_tools() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "1"},
    ]

    assert validation.clean(CHAT, factories.make_chat() | {"messages": messages}).body["messages"] == messages


@pytest.mark.parametrize(
    ("text", "told"),
    [("secret \0 text", "character 8 of 13 is U+0000"), ("secret\ud83d", "character 7 of 7 is U+D83D")],
    ids=["nul", "surrogate"],
)
def test_what_no_text_may_hold_is_told_with_its_place_and_without_the_text(text: str, told: str) -> None:
    error = refusal(CHAT, factories.make_chat() | {"messages": [{"role": "user", "content": text}]})
    assert error.message.endswith(f"lone surrogates, but {told}")
    assert "secret" not in error.message


def test_an_unsound_name_of_a_field_is_told_with_the_place(subtests: pytest.Subtests) -> None:
    for name, told in (("ab\0", "character 3 of 3 is U+0000"), ("\udfff", "character 1 of 1 is U+DFFF")):
        with subtests.test(told):
            assert refusal(CHAT, factories.make_chat(metadata={name: 1})).message.endswith(told)


def test_depth_is_bounded_without_recursion() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    error = refusal(CHAT, factories.make_chat(metadata=deep))

    assert "at most 64 levels" in error.message
    assert error.param is not None
    assert len(error.param) < 150


def test_the_number_of_values_is_bounded() -> None:
    error = refusal(CHAT, factories.make_chat(metadata=[0] * 300_000))

    assert "at most 250000 values" in error.message


def test_a_long_name_above_many_values_is_not_kept_for_each_of_them() -> None:
    body = factories.make_chat(metadata={"k" * 100_000: [0] * 1000})
    tracemalloc.start()
    try:
        validation.clean(CHAT, body)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most_bytes < 5_000_000


def test_a_message_never_repeats_a_whole_prompt() -> None:
    error = refusal(CHAT, factories.make_chat() | {"messages": "secret " * 1000})

    assert len(error.message) < 150


def test_a_body_with_keys_that_are_no_strings_is_refused() -> None:
    assert "names of fields" in refusal(CHAT, {1: 2}).message


ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=[]), max_size=5)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
KNOWN = [
    *["model", "messages", "prompt", "max_tokens", "max_completion_tokens", "n", "best_of", "stream", "stop"],
    *["service_tier", "tools", "documents", "logprobs", "top_logprobs", "chat_template", "echo", "user"],
    *["stream_options", "response_format", "logit_bias", "chat_template_kwargs", *parameters.RANGES],
    *[*parameters.INTEGERS, *parameters.TOKEN_IDS, "tool_choice", "functions", "function_call"],
    *[*kinds.FLAGS, *kinds.TEXTS, *kinds.OBJECTS, *kinds.STRINGS],
]
ANY_BODY = st.dictionaries(st.sampled_from(KNOWN) | ANY_TEXT, ANY_JSON, max_size=6)
ANY_MESSAGE = st.fixed_dictionaries(
    {}, optional={"role": st.sampled_from(sorted(validation.ROLES)), "content": ANY_JSON, "tool_calls": ANY_JSON}
)
HALF_GOOD = st.builds(
    lambda body, messages, prompt: {**body, "model": "m", "messages": messages, "prompt": prompt},
    ANY_BODY,
    st.lists(ANY_MESSAGE, max_size=3),
    ANY_JSON,
)


def outcome(endpoint: Endpoint, body: Any) -> validation.Request | errors.SluiceError:
    try:
        return validation.clean(endpoint, body)
    except errors.SluiceError as error:
        return error


@hypothesis.given(endpoint=st.sampled_from(Endpoint), body=ANY_JSON | ANY_BODY | HALF_GOOD)
def test_whatever_json_holds_is_checked_or_refused_and_never_crashes(endpoint: Endpoint, body: Any) -> None:
    answer = outcome(endpoint, body)

    if isinstance(answer, errors.SluiceError):
        assert answer.status == 400
        assert 0 < len(answer.message.encode()) < 1000
    else:
        assert answer.model
