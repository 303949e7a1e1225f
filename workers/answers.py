"""What goes to the engine and what comes back, read as far as the worker needs it. Pure.

Whatever an engine says can be stored and read: what no database or client takes is replaced here.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from inference import fields, texts
from inference.states import Endpoint
from workers import sse
from workers.outcomes import Completed

MAX_MESSAGE_CHARACTERS: Final = 300
_ECHOES: Final = ("'input'", '"input"', "input_value=", " (parameter=")
"""Where an error begins to quote the request."""
_COMPLAINT: Final = re.compile(r"""'msg': (?:'([^']*)'|"([^"]*)")""")
"""What is said in an entry of vLLM's list of validation errors."""
_BRANCH: Final = re.compile(r"[A-Z]\w*")
"""A class's name, among the steps to a field that takes one of several."""
_NOT_OF_THE_BODY: Final = frozenset({"input_tokens", "body", ""})
"""Names of vLLM's own: the prompt's tokens, and the request as a whole."""
_REFUSED: Final = "The engine refused the request."
_MAX_COUNT: Final = 2**31 - 1
_SUSPECT: Final = re.compile(r"\x00|\\u[dD][89a-fA-F]")
"""In JSON text: a NUL, or perhaps half of a surrogate pair."""


def whole(answer: bytes) -> Completed:
    """Read a plain answer. Raises ValueError if it is not a completion."""
    text = answer.decode(errors="replace")
    body = json.loads(text, strict=False)
    return _completed(body, _dumped(body) if _SUSPECT.search(text) else text, None)


def streamed(events: Sequence[bytes], endpoint: Endpoint, *, first_token_at: datetime | None) -> Completed:
    """Read a stream that ended. Raises ValueError if it carries an error."""
    body = sse.assemble(events, endpoint)
    return _completed(body, _dumped(body), first_token_at)


def with_usage(request: str) -> tuple[bytes, bool]:
    """Have the stream end with its token counts: the request to send, and whether the client asked for them.

    Only a request that has options of its own is parsed; else they are put before the closing brace.
    """
    if '"stream_options"' not in request:
        head = request.rstrip().removesuffix("}").rstrip()
        comma = "" if head.endswith("{") else ","
        return f'{head}{comma}"stream_options":{{"include_usage":true}}}}'.encode(), False
    body = json.loads(request)
    options = body.get("stream_options") or {}
    body["stream_options"] = {**options, "include_usage": True}
    return json.dumps(body).encode(), bool(options.get("include_usage"))


def refusal(body: bytes) -> str:
    """Return the engine's message to its caller, the field first if one is told; it never quotes the request."""
    try:
        answer: Any = json.loads(body)
        error = answer.get("error", answer)
        message, told = str(error.get("message", "")), error.get("param")
    except (ValueError, AttributeError):
        return _REFUSED
    message = texts.sound(_plain(message))
    path = _path(told)
    if path and fields.blamed(message) != path:
        message = fields.blame(path, message)
    return message[:MAX_MESSAGE_CHARACTERS] or _REFUSED


def _plain(message: str) -> str:
    """Take the sentence out of a validation error, and what quotes the request off it."""
    if found := _COMPLAINT.search(message):
        message = found[1] or found[2]
    for echo in _ECHOES:
        message = message.partition(echo)[0]
    return message.strip(" ,{[").removeprefix("Value error, ")


def _path(told: object) -> str:
    """Return the field as our own messages name it; "" for what is none of the caller's."""
    if not isinstance(told, str) or told in _NOT_OF_THE_BODY:
        return ""
    steps = [step for step in told.removeprefix("body.").split(".") if not _BRANCH.fullmatch(step)]
    path = "".join(f"[{step}]" if step.isdecimal() else f".{step}" for step in steps).removeprefix(".")
    return path if fields.blamed(fields.blame(path, "")) == path else ""


def _completed(body: dict[str, Any], text: str, first_token_at: datetime | None) -> Completed:
    try:
        usage, choices = body.get("usage") or {}, body["choices"]
        finish_reason = str(choices[0].get("finish_reason") or "") if choices else ""
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("the engine's answer is not a completion") from error
    return Completed(
        result=text,
        finish_reason=texts.sound(finish_reason),
        prompt_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        first_token_at=first_token_at,
    )


def _count(value: Any) -> int | None:
    """Return a number of tokens; None for what is none, or more than a column holds."""
    return value if fields.is_integer(value) and 0 <= value <= _MAX_COUNT else None


def _dumped(body: dict[str, Any]) -> str:
    return texts.sound(json.dumps(body, ensure_ascii=False, separators=(",", ":")))
