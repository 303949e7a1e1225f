"""The engine's event stream as bytes: cut into events, and put together into the answer it stands for. Pure."""

import json
from collections.abc import Iterable
from typing import Any, Final

from inference.states import Endpoint

END: Final = b"\n\n"
DONE: Final = b"data: [DONE]"
_DATA: Final = b"data:"


class Splitter:
    """Cuts pieces of any size into whole events; what is passed on to a client never ends inside one."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the events that `piece` completes, each with its blank line."""
        *events, self._rest = (self._rest + piece).split(END)
        return [event + END for event in events if event]


def is_done(event: bytes) -> bool:
    """Whether the event says that the stream is whole."""
    return event.rstrip() == DONE


def is_usage_only(event: bytes) -> bool:
    """Whether the event carries nothing but the token counts, which not every client asked for."""
    if b'"usage"' not in event:  # spares parsing nearly all of them
        return False
    body = _body(event)
    return bool(body and body.get("usage") and not body.get("choices"))


def assemble(events: Iterable[bytes], endpoint: Endpoint) -> dict[str, Any]:
    """Return the answer object whose stream `events` was. Raises ValueError for an error event or bad JSON."""
    answer: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    for body in filter(None, map(_body, events)):
        if "error" in body:
            raise ValueError("the engine met an error in mid-stream")
        for piece in body.pop("choices", None) or ():
            _add(choices.setdefault(piece.get("index", 0), {}), piece, endpoint)
        answer |= {name: value for name, value in body.items() if value is not None}
    answer["object"] = "chat.completion" if endpoint is Endpoint.CHAT else "text_completion"
    answer["choices"] = [choices[index] for index in sorted(choices)]
    return answer


def _body(event: bytes) -> dict[str, Any] | None:
    """Return the event's JSON object; None for `[DONE]` and comments."""
    line = event.strip()
    if not line.startswith(_DATA) or is_done(event):
        return None
    body: dict[str, Any] = json.loads(line[len(_DATA) :].decode(errors="replace"), strict=False)
    return body


def _add(choice: dict[str, Any], piece: dict[str, Any], endpoint: Endpoint) -> None:
    """Add a piece of a stream to the choice it belongs to."""
    rest = {name: value for name, value in piece.items() if name not in {"delta", "text", "logprobs"}}
    choice |= {name: value for name, value in rest.items() if value is not None or name not in choice}
    if endpoint is Endpoint.CHAT:
        _add_delta(choice.setdefault("message", {"role": "assistant", "content": None}), piece.get("delta") or {})
    else:
        choice["text"] = choice.get("text", "") + (piece.get("text") or "")
    _add_logprobs(choice, piece.get("logprobs"))


def _add_delta(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, value in delta.items():
        if name == "tool_calls":
            _add_tool_calls(message.setdefault("tool_calls", []), value or [])
        elif isinstance(value, str) and name != "role":
            message[name] = (message.get(name) or "") + value
        elif value is not None:
            message[name] = value


def _add_tool_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        index = piece.get("index", 0)
        calls += [{"function": {"name": "", "arguments": ""}} for _ in range(index + 1 - len(calls))]
        call, function = calls[index], piece.get("function") or {}
        call |= {name: piece[name] for name in ("id", "type") if piece.get(name)}
        for name in ("name", "arguments"):
            call["function"][name] += function.get(name) or ""


def _add_logprobs(choice: dict[str, Any], logprobs: dict[str, Any] | None) -> None:
    """Lengthen the lists of tokens and numbers by those of the piece."""
    if logprobs is None:
        choice.setdefault("logprobs", None)
        return
    known = choice.get("logprobs") or {}
    choice["logprobs"] = {name: (known.get(name) or []) + (value or []) for name, value in logprobs.items()}
