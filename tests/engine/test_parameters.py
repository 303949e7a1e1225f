"""What is refused before it is queued is what vLLM refuses: at every bound, both say the same."""

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from inference import errors, parameters, validation
from inference.states import Endpoint
from tests import factories

pytestmark = [pytest.mark.engine, pytest.mark.once]

STRICTER: Final = {("repetition_penalty", "high")}
"""vLLM has no bound there."""
TOOLS: Final = [{"type": "function", "function": {"name": "look"}}]
TINY: Final = 1e-6


OTHERS: Final[list[dict[str, Any]]] = [
    {"min_tokens": 8, "max_tokens": 8},
    {"min_tokens": 9, "max_tokens": 8},
    {"stop_token_ids": ["x"]},
    {"stop": list("abcd")},
    {"stop": list("abcde")},
    *({"bad_words": words} for words in ([5], "a", [""], ["a"])),
    {"top_logprobs": 2},
    {"logit_bias": {"a": 1}},
    {"tools": []},
    {"tools": [{"function": 1}]},
    {"tool_choice": "auto"},
    {"tools": TOOLS, "tool_choice": "any"},
    {"tools": TOOLS, "tool_choice": {"function": {"name": "look"}}},
    {"tools": TOOLS, "tool_choice": {"function": {"name": "hear"}}},
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "yaml"}},
    {"response_format": {"type": "json_schema"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": 1}}},
    {"continue_final_message": True, "add_generation_prompt": True},
    {"stream_options": {"include_usage": True}},
    {"stream": True, "stream_options": {"include_usage": True}},
]
ASK: Final = """
import json, sys
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.exceptions import VLLMValidationError

def takes(body):
    try:
        ChatCompletionRequest.model_validate(body).to_sampling_params(body.get("max_tokens", 64), {})
    except (ValueError, VLLMValidationError):
        return False
    return True

verdicts = [takes(body) for body in json.load(sys.stdin)]
print(json.dumps([verdicts, [list(kind.model_fields) for kind in (ChatCompletionRequest, CompletionRequest)]]))
"""
"""In a process of its own: vLLM's library changes the one it is loaded into."""


def bounds() -> list[dict[str, Any]]:
    found: list[tuple[str, float]] = []
    for name, allowed in parameters.RANGES.items():
        found += [
            (name, allowed.low),
            (name, allowed.low - TINY),
            (name, allowed.low + TINY),
            (name, allowed.high),
        ]
        found += [] if (name, "high") in STRICTER else [(name, allowed.high + TINY)]
    for name, (low, _) in parameters.INTEGERS.items():
        found += [(name, low), (name, low - 1)]
    return [{name: value} for name, value in found]


CASES: Final = [*bounds(), *OTHERS]


@pytest.fixture(scope="module")
def vllms() -> tuple[list[bool], list[list[str]]]:
    """Whether vLLM takes each case; the names of its fields, of chats and of completions."""
    asked = json.dumps([factories.make_chat(**fields) for fields in CASES])
    done = subprocess.run([sys.executable, "-c", ASK], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    verdicts, names = json.loads(done.stdout.splitlines()[-1])
    return verdicts, names


def refusal(endpoint: Endpoint, body: dict[str, Any]) -> errors.InvalidRequest | None:
    try:
        validation.clean(endpoint, body)
    except errors.InvalidRequest as error:
        return error
    return None


def test_what_the_engine_refuses_is_refused_before_and_nothing_else(
    vllms: tuple[list[bool], list[list[str]]],
) -> None:
    theirs = {str(case): verdict for case, verdict in zip(CASES, vllms[0], strict=True)}
    ours = {str(case): refusal(Endpoint.CHAT, factories.make_chat(**case)) is None for case in CASES}
    assert ours == theirs
    assert set(theirs.values()) == {True, False}


def test_every_field_that_the_engine_knows_is_refused_by_its_name_if_its_type_is_wrong(
    vllms: tuple[list[bool], list[list[str]]],
) -> None:
    chat, completion = factories.make_chat(), {"model": factories.MODEL, "prompt": "Once"}
    for endpoint, body, names in zip(
        (Endpoint.CHAT, Endpoint.COMPLETIONS), (chat, completion), vllms[1], strict=True
    ):
        assert len(names) > 40
        let_through = [n for n in names if not _names(refusal(endpoint, body | {n: [[True]]}), n)]
        assert let_through == []


def _names(error: errors.InvalidRequest | None, field: str) -> bool:
    return error is not None and (error.param or "").startswith(field)
