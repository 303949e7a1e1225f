"""Checks a request's body. Whatever JSON can hold comes in; a checked request or an error with a name goes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from inference import fields, parameters
from inference.errors import InvalidRequest
from inference.states import Endpoint

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
MAX_MESSAGES: Final = 10_000
MAX_OUTPUT_TOKENS: Final = 2**31 - 1
COMPLETION_DEFAULT_TOKENS: Final = 16
"""What a completion without `max_tokens` gets, from OpenAI and from vLLM."""

OURS: Final = frozenset({"service_tier", "priority", "request_id"})
"""Fields that Sluice decides; the engine gets its own."""

REFUSED: Final = {
    "chat_template": "the model's own is used",
    "kv_transfer_params": "it could name hosts for the engine to connect to",
    "ec_transfer_params": "it could name hosts for the engine to connect to",
    "prompt_embeds": "send text or token ids",
    "use_beam_search": "it multiplies the work of one request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A checked request."""

    endpoint: Endpoint
    model: str
    body: dict[str, Any] = field(repr=False)
    """For the engine: as the client sent it, less what is ours."""
    max_tokens: int | None
    """Most output tokens; None: as many as fit."""
    max_tokens_field: str
    """The field that says so, for messages."""
    stream: bool
    service_tier: str | None


def clean(endpoint: Endpoint, body: object) -> Request:
    """Check a body. Raises InvalidRequest that names field, limit and value; nothing else, whatever comes."""
    if not isinstance(body, Mapping):
        raise InvalidRequest(f"body must be a JSON object, not {fields.kind(body)}")
    fields.check_values(body)
    _refuse(body)
    checked = {name: value for name, value in body.items() if value is not None}  # as if it were not there
    if endpoint is Endpoint.CHAT:
        check_messages(body.get("messages"))
    else:
        checked["prompt"] = clean_prompt(body.get("prompt"))
    limit, limit_field = _max_tokens(endpoint, body)
    parameters.check(endpoint, body, max_tokens=limit)
    return Request(
        endpoint=endpoint,
        model=fields.text(body, "model", required=True),
        body={name: value for name, value in checked.items() if name not in OURS},
        max_tokens=limit,
        max_tokens_field=limit_field,
        stream=bool(fields.flag(body, "stream")),
        service_tier=fields.text(body, "service_tier") if "service_tier" in checked else None,
    )


def check_messages(messages: object) -> None:
    """Check a chat's messages. Raises InvalidRequest."""
    if not isinstance(messages, list) or not messages:
        raise fields.wrong("messages", "must be a non-empty list of messages", messages)
    if len(messages) > MAX_MESSAGES:
        raise InvalidRequest(f"messages: at most {MAX_MESSAGES}, not {len(messages)}", param="messages")
    for i, message in enumerate(messages):
        _check_message(f"messages[{i}]", message)


def clean_prompt(prompt: object) -> str | list[int]:
    """Return a completion's one prompt: text or token ids. Raises InvalidRequest."""
    if isinstance(prompt, list) and prompt and not fields.is_integer(prompt[0]):
        if len(prompt) > 1:
            message = f"prompt: one prompt a request, not {len(prompt)}; send one request for each"
            raise InvalidRequest(message, param="prompt")
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return prompt
    if not isinstance(prompt, list) or not prompt:
        raise fields.wrong("prompt", "must be a non-empty string or list of token ids", prompt)
    for i, token_id in enumerate(prompt):
        if not fields.is_integer(token_id) or not 0 <= token_id <= fields.MAX_TOKEN_ID:
            raise fields.wrong(f"prompt[{i}]", f"must be a token id from 0 to {fields.MAX_TOKEN_ID}", token_id)
    return prompt


def _refuse(body: Mapping[str, Any]) -> None:
    for name, reason in REFUSED.items():
        if body.get(name) is not None and body[name] is not False:
            raise InvalidRequest(f"{name} is not accepted: {reason}", code="unsupported_parameter", param=name)


def _check_message(path: str, message: object) -> None:
    if not isinstance(message, dict):
        raise fields.wrong(path, "must be an object with role and content", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise fields.wrong(f"{path}.role", f"must be one of {', '.join(sorted(ROLES))}", role)
    _check_content(f"{path}.content", message.get("content"), may_lack=role == "assistant")
    if message.get("tool_calls") is not None:
        _check_tool_calls(f"{path}.tool_calls", message["tool_calls"])
    for name in ("name", "tool_call_id"):
        fields.text(message, name, path=f"{path}.")


def _check_content(path: str, content: object, *, may_lack: bool) -> None:
    if isinstance(content, str) or (content is None and may_lack):
        return
    if not isinstance(content, list) or not content:
        raise fields.wrong(path, "must be a string or a non-empty list of text parts", content)
    for i, part in enumerate(content):
        _check_part(f"{path}[{i}]", part)


def _check_part(path: str, part: object) -> None:
    if not isinstance(part, dict):
        raise fields.wrong(path, 'must be an object as {"type": "text", "text": "..."}', part)
    if part.get("type") != "text":
        raise fields.wrong(f"{path}.type", "must be 'text', the only kind of content taken", part.get("type"))
    if not isinstance(part.get("text"), str):
        raise fields.wrong(f"{path}.text", "must be a string", part.get("text"))


def _check_tool_calls(path: str, calls: object) -> None:
    if not isinstance(calls, list):
        raise fields.wrong(path, "must be a list", calls)
    for i, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise fields.wrong(f"{path}[{i}].function", "must be an object with a name", function)
        _check_tool_call(f"{path}[{i}]", call)


def _check_tool_call(path: str, call: Mapping[str, Any]) -> None:
    fields.text(call, "id", path=f"{path}.")
    fields.one_of(call, "type", ("function",), path=f"{path}.")
    arguments = call["function"].get("arguments")
    if arguments is not None and not isinstance(arguments, str | dict):
        raise fields.wrong(f"{path}.function.arguments", "must be a string, an object as JSON", arguments)


def _max_tokens(endpoint: Endpoint, body: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the most output tokens asked for, and the field that asks."""
    newer = fields.integer(body, "max_completion_tokens", low=1, high=MAX_OUTPUT_TOKENS)
    older = fields.integer(body, "max_tokens", low=1, high=MAX_OUTPUT_TOKENS)
    if endpoint is Endpoint.CHAT and newer is not None:
        return newer, "max_completion_tokens"
    if endpoint is Endpoint.COMPLETIONS and older is None:
        return COMPLETION_DEFAULT_TOKENS, "max_tokens"
    return older, "max_tokens"
