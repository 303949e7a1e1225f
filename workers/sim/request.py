"""Check a request as vLLM does, as far as the simulation goes. Pure."""

import enum
import json
from dataclasses import dataclass
from typing import Any, Final

from workers.sim import text
from workers.sim.config import SimConfig

_DEFAULT_COMPLETION_TOKENS: Final = 16
"""What OpenAI's older endpoint produces if nothing is asked."""


@dataclass(eq=False)
class Refused(Exception):
    """The request is wrong; the rest is vLLM's error envelope."""

    message: str
    param: str | None = None
    status: int = 400
    kind: str = "BadRequestError"

    def __str__(self) -> str:
        return self.message

    def envelope(self) -> bytes:
        """Return the answer's body."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return json.dumps({"error": error}).encode()


class Fault(enum.Enum):
    """What a prompt can be told to do to the engine, to see what becomes of it and of its neighbours."""

    CRASH = enum.auto()
    HANG = enum.auto()


@dataclass(frozen=True, slots=True)
class SimRequest:
    """A request that can run."""

    is_chat: bool
    prompt_tokens: int
    """A guess, by which it takes its time and room: the same whoever asks."""
    told_tokens: int
    """What it says of its prompt: as it was told, since it has no tokenizer; else its guess."""
    reply: list[str]
    """The tokens it will produce."""
    is_cut: bool
    """Whether `max_tokens` ends it: finish reason `length`, else `stop`."""
    priority: int
    stream: bool
    include_usage: bool
    fault: Fault | None = None
    """What it does to the engine."""


def parse(config: SimConfig, body: bytes, *, is_chat: bool, told_tokens: str = "") -> SimRequest:
    """Read a request's body; `told_tokens` is the header `X-Prompt-Tokens`, if there is one. Raises Refused."""
    fields = _fields(body)
    _check_known(config, fields)
    _check_served(config, fields)
    prompt, prompt_tokens = _chat_prompt(fields) if is_chat else _plain_prompt(fields)
    limit = _output_limit(config, fields, prompt_tokens, is_chat=is_chat)
    least = limit if fields.get("ignore_eos") else _whole(fields, "min_tokens") or 0
    reply = text.answer(config, prompt, at_most=limit, at_least=least)
    return SimRequest(
        is_chat=is_chat,
        prompt_tokens=prompt_tokens,
        told_tokens=int(told_tokens) if told_tokens.isdecimal() else prompt_tokens,
        reply=reply,
        is_cut=len(reply) >= limit,
        priority=_whole(fields, "priority") or 0,
        stream=bool(fields.get("stream")),
        include_usage=bool((fields.get("stream_options") or {}).get("include_usage")),
        fault=_fault(config, prompt),
    )


def _check_served(config: SimConfig, fields: dict[str, Any]) -> None:
    if fields.get("model") != config.model:
        raise Refused(f"The model `{fields.get('model')}` does not exist.", "model", 404, "NotFoundError")
    if fields.get("n") not in (None, 1):
        raise Refused("The simulated engine gives one choice: n must be 1.", "n")


def _fault(config: SimConfig, prompt: str) -> Fault | None:
    if config.crash_on and config.crash_on in prompt:
        return Fault.CRASH
    return Fault.HANG if config.hang_on and config.hang_on in prompt else None


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise Refused(f"Invalid JSON: {error}") from error
    if not isinstance(fields, dict):
        raise Refused("The body must be a JSON object.")
    return fields


def _check_known(config: SimConfig, fields: dict[str, Any]) -> None:
    for name in filter(None, config.refuses.split(",")):
        if name in fields:
            raise Refused(f"Unrecognized request argument supplied: {name}", name)


def _chat_prompt(fields: dict[str, Any]) -> tuple[str, int]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise Refused("messages must be a list of at least one message.", "messages")
    prompt = "\n".join(_content(message.get("content")) for message in messages)
    return prompt, text.count_tokens(prompt, messages=len(messages))


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def _plain_prompt(fields: dict[str, Any]) -> tuple[str, int]:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return prompt, text.count_tokens(prompt)
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) for token in prompt):
        return repr(prompt), len(prompt)
    raise Refused("The simulated engine takes one prompt: a string, or a list of token ids.", "prompt")


def _output_limit(config: SimConfig, fields: dict[str, Any], prompt_tokens: int, *, is_chat: bool) -> int:
    room = config.max_model_len - prompt_tokens
    wanted = _whole(fields, "max_completion_tokens")
    wanted = _whole(fields, "max_tokens") if wanted is None else wanted
    if wanted is None:
        wanted = max(1, room) if is_chat else _DEFAULT_COMPLETION_TOKENS
    if wanted < 1:
        raise Refused(f"max_tokens must be at least 1, got {wanted!r}.", "max_tokens")
    if wanted > room:
        raise Refused(
            f"This model's maximum context length is {config.max_model_len} tokens. However, you requested "
            f"{wanted} output tokens and your prompt contains {prompt_tokens} input tokens. Please reduce the "
            "length of the input prompt or the number of requested output tokens.",
            "input_tokens",
        )
    return wanted


def _whole(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is not None and type(value) is not int:  # True is an int, too
        raise Refused(f"{name} must be a whole number, got {value!r}.", name)
    return value
