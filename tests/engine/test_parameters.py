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
]
ASK: Final = """
import json, sys
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.exceptions import VLLMValidationError

def takes(body):
    try:
        ChatCompletionRequest.model_validate(body).to_sampling_params(body.get("max_tokens", 64), {})
    except (ValueError, VLLMValidationError):
        return False
    return True

print(json.dumps([takes(body) for body in json.load(sys.stdin)]))
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


def what_vllm_takes() -> list[bool]:
    asked = json.dumps([factories.make_chat(**fields) for fields in CASES])
    done = subprocess.run([sys.executable, "-c", ASK], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    answer: list[bool] = json.loads(done.stdout.splitlines()[-1])
    return answer


def we_take(body: dict[str, Any]) -> bool:
    try:
        validation.clean(Endpoint.CHAT, body)
    except errors.InvalidRequest:
        return False
    return True


def test_what_the_engine_refuses_is_refused_before_and_nothing_else() -> None:
    theirs = {str(case): verdict for case, verdict in zip(CASES, what_vllm_takes(), strict=True)}
    assert {str(case): we_take(factories.make_chat(**case)) for case in CASES} == theirs
    assert set(theirs.values()) == {True, False}
