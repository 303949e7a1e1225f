"""Checks of what a body asks of the engine: sampling, stopping, tools, the form of the answer.

As strict as vLLM, so that what it would refuse is refused before it is queued; what only the engine can know is
left to it. Fields that are neither here nor in `kinds` pass through; `vocabulary` knows which token ids there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inference import fields, kinds
from inference.errors import InvalidRequest
from inference.fields import INT64, MAX_TOKEN_ID, wrong
from inference.states import Endpoint


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a field takes."""

    low: float
    high: float
    above: bool = False
    """`low` itself is too low."""


RANGES: Final[Mapping[str, Range]] = {
    "temperature": Range(0, 2),
    "top_p": Range(0, 1, above=True),
    "min_p": Range(0, 1),
    "presence_penalty": Range(-2, 2),
    "frequency_penalty": Range(-2, 2),
    "repetition_penalty": Range(0, 100, above=True),
}
INTEGERS: Final[Mapping[str, tuple[int, int]]] = {
    "seed": (-INT64 - 1, INT64),
    "top_k": (-1, INT64),
    "min_tokens": (0, INT64),
    "truncate_prompt_tokens": (-1, INT64),
    "prompt_logprobs": (-1, INT64),
    "stream_interval": (1, INT64),
    "thinking_token_budget": (-1, INT64),
    "routed_experts_prompt_start": (0, INT64),
    "priority": (-INT64 - 1, INT64),
}
TOKEN_IDS: Final = ("stop_token_ids", "allowed_token_ids", "logprob_token_ids")
MAX_STOPS: Final = 4
"""OpenAI's, and vLLM's."""
FORMATS: Final = ("text", "json_object", "json_schema", "structural_tag")
TOOL_CHOICES: Final = ("none", "auto", "required")

OF_THE_BODY: Final = frozenset(
    {"messages", "conversation", "tools", "documents", "chat_template", "tokenize", "return_dict"}
    | {"add_generation_prompt", "continue_final_message"}
)
"""What a template gets from fields of the body or from the engine, and `chat_template_kwargs` cannot set."""


def check(endpoint: Endpoint, body: Mapping[str, Any], *, max_tokens: int | None) -> None:
    """Check all parameters. Raises InvalidRequest that names field, limit and value."""
    kinds.check(body)
    _check_numbers(body)
    _check_min_tokens(body, max_tokens)
    _check_stops(body)
    _check_logprobs(endpoint, body)
    _check_logit_bias(body)
    _check_format(body)
    _check_stream_options(body)
    for name in ("n", "best_of"):
        if body.get(name) is not None and not (fields.is_integer(body[name]) and body[name] == 1):
            raise wrong(name, "must be 1: send one request for each answer", body[name])
    if endpoint is Endpoint.CHAT:
        _check_template(body)
        _check_tools(body)
        _check_tool_choice(body)


def _check_numbers(body: Mapping[str, Any]) -> None:
    for name, allowed in RANGES.items():
        fields.number(body, name, low=allowed.low, high=allowed.high, above=allowed.above)
    for name, (low, high) in INTEGERS.items():
        fields.integer(body, name, low=low, high=high)
    for name in TOKEN_IDS:
        fields.integers(body, name, low=0, high=MAX_TOKEN_ID)


def _check_min_tokens(body: Mapping[str, Any], max_tokens: int | None) -> None:
    least = body.get("min_tokens")
    if least is not None and max_tokens is not None and least > max_tokens:
        raise wrong("min_tokens", f"must be at most the {max_tokens} tokens that the answer may have", least)


def _check_stops(body: Mapping[str, Any]) -> None:
    fields.texts(body, "stop")
    stops = body.get("stop")
    if isinstance(stops, list) and len(stops) > MAX_STOPS:
        raise wrong("stop", f"must hold at most {MAX_STOPS} strings", stops)


def _check_logprobs(endpoint: Endpoint, body: Mapping[str, Any]) -> None:
    if endpoint is Endpoint.COMPLETIONS:
        fields.integer(body, "logprobs", low=0, high=20)
        return
    wanted = fields.flag(body, "logprobs")
    if fields.integer(body, "top_logprobs", low=0, high=20) and not wanted:
        raise wrong("top_logprobs", "takes logprobs to be true", body["top_logprobs"])


def _check_logit_bias(body: Mapping[str, Any]) -> None:
    fields.mapping(body, "logit_bias")
    for token_id, bias in (body.get("logit_bias") or {}).items():
        path = f"logit_bias.{token_id}"
        if not (token_id.isascii() and token_id.isdecimal() and len(token_id) <= 10):
            raise InvalidRequest(
                f"{fields.show_path(path)}: names must be token ids", param=fields.show_path(path)
            )
        if not isinstance(bias, int | float) or isinstance(bias, bool):
            raise wrong(path, "must be a number", bias)


def _check_format(body: Mapping[str, Any]) -> None:
    fields.mapping(body, "response_format")
    wanted = body.get("response_format")
    if wanted is None:
        return
    if wanted.get("type") is None:
        raise wrong("response_format.type", f"must be one of {', '.join(FORMATS)}", None)
    fields.one_of(wanted, "type", FORMATS, path="response_format.")
    if wanted["type"] == "json_schema":
        _check_schema(wanted.get("json_schema"))


def _check_schema(found: object) -> None:
    path = "response_format.json_schema"
    if not isinstance(found, dict):
        raise wrong(path, "must be an object with name and schema", found)
    if not isinstance(found.get("name"), str):
        raise wrong(f"{path}.name", "must be a string", found.get("name"))
    if found.get("schema") is not None and not isinstance(found["schema"], dict):
        raise wrong(f"{path}.schema", "must be an object", found["schema"])
    fields.flag(found, "strict", path=f"{path}.")
    fields.text(found, "description", path=f"{path}.")


def _check_stream_options(body: Mapping[str, Any]) -> None:
    fields.mapping(body, "stream_options")
    options = body.get("stream_options")
    if options is None:
        return
    if not fields.flag(body, "stream"):
        raise wrong("stream_options", "takes stream to be true", body.get("stream"))
    for name in ("include_usage", "include_obfuscation", "continuous_usage_stats"):
        fields.flag(options, name, path="stream_options.")


def _check_template(body: Mapping[str, Any]) -> None:
    fields.objects(body, "documents")
    fields.mapping(body, "chat_template_kwargs")
    for name in body.get("chat_template_kwargs") or {}:
        if name in OF_THE_BODY:
            path = f"chat_template_kwargs.{name}"
            raise InvalidRequest(f"{path} is not accepted: it is not for the caller to set there", param=path)
    if body.get("continue_final_message") and body.get("add_generation_prompt") is not False:  # true if not named
        path = "add_generation_prompt"
        raise wrong(path, "must be false beside continue_final_message", body.get(path))


def _check_tools(body: Mapping[str, Any]) -> None:
    fields.objects(body, "tools")
    tools = body.get("tools")
    if tools is not None and not tools:
        raise wrong("tools", "must hold at least one tool, or be left out", tools)
    for i, tool in enumerate(tools or []):
        fields.one_of(tool, "type", ("function",), path=f"tools[{i}].")
        _check_function(f"tools[{i}].function", tool.get("function"))


def _check_function(path: str, function: object) -> None:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise wrong(path, "must be an object with a name", function)
    fields.mapping(function, "parameters", path=f"{path}.")
    fields.text(function, "description", path=f"{path}.")
    fields.flag(function, "strict", path=f"{path}.")


def _check_tool_choice(body: Mapping[str, Any]) -> None:
    choice = body.get("tool_choice")
    if choice is None or choice == "none":
        return
    if not body.get("tools"):
        raise wrong("tool_choice", "takes tools to choose from", choice)
    if isinstance(choice, dict):
        _check_named_tool(choice.get("function"), [tool["function"]["name"] for tool in body["tools"]])
    else:
        fields.one_of(body, "tool_choice", TOOL_CHOICES)


def _check_named_tool(function: object, names: list[str]) -> None:
    path = "tool_choice.function"
    if not isinstance(function, dict):
        raise wrong(path, "must be an object with a name", function)
    if function.get("name") not in names:
        raise wrong(f"{path}.name", "must be the name of one of the tools", function.get("name"))
