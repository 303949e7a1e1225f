"""The types of fields that Sluice only passes on, as OpenAI's and vLLM's documents have them.

An engine ignores some that it does not know, and a wrong type of those would go unnoticed.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from inference import fields

FLAGS: Final = (
    *("echo", "ignore_eos", "add_special_tokens", "add_generation_prompt", "continue_final_message", "store"),
    *("include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens", "watermarking"),
    *("parallel_tool_calls", "include_reasoning", "return_tokens_as_token_ids", "return_token_ids"),
    *("return_token_offsets", "return_prompt_text", "return_mm_kwargs"),
)
TEXTS: Final = (
    *("user", "suffix", "reasoning_effort", "verbosity", "safety_identifier", "request_id", "session_id"),
    *("prompt_cache_key", "prompt_cache_retention", "cache_salt", "truncation_side", "mm_payload"),
)
OBJECTS: Final = (
    *("metadata", "audio", "prediction", "moderation", "prompt_cache_options", "web_search_options"),
    *("structured_outputs", "repetition_detection", "vllm_xargs", "mm_processor_kwargs", "media_io_kwargs"),
)
STRINGS: Final = ("bad_words", "modalities")


def check(body: Mapping[str, Any]) -> None:
    """Check the type of each field that is known here. Raises errors.InvalidRequest that names field and value."""
    for name in body:
        if is_sound := _CHECKS.get(name):
            is_sound(body, name)


def _number(body: Mapping[str, Any], name: str) -> None:
    value = body[name]
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise fields.wrong(name, "must be a number", value)


def _function_call(body: Mapping[str, Any], name: str) -> None:
    if body[name] is not None and not isinstance(body[name], str | dict):
        raise fields.wrong(name, "must be a string or an object", body[name])


_CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any], str], object]]] = MappingProxyType(
    dict.fromkeys(FLAGS, fields.flag)
    | dict.fromkeys(TEXTS, fields.text)
    | dict.fromkeys(OBJECTS, fields.mapping)
    | dict.fromkeys(STRINGS, fields.strings)
    | {"functions": fields.objects, "function_call": _function_call, "length_penalty": _number}
)
