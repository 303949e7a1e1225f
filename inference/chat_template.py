"""Renders a chat as the engine will, so that its tokens can be counted before it is queued."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from inference.limits import MAX_BODY_BYTES

CONTINUE_MARK: Final = "CONTINUE_FINAL_MESSAGE "
BILLING_LINE: Final = "x-anthropic-billing-header"
MAX_CHARACTERS: Final = 4 * MAX_BODY_BYTES
"""Longest prompt made of a chat. Far above what any model takes; a variable of the caller's that a template writes
with each message must not fill the memory."""


class TemplateRefused(Exception):
    """The chat does not fit the model's template; the message says why, in the template's own words."""


class ChatTemplate:
    """A model's chat template, compiled. Thread-safe."""

    def __init__(self, source: str, *, special_tokens: Mapping[str, str]) -> None:
        environment = _environment()
        self._template = environment.from_string(source)
        # A plain copy of a map over maps: each rendering walks it twice.
        self._template.globals = dict(self._template.globals)
        self._special_tokens = dict(special_tokens)
        self._wants_parts = _loops_over_content(environment.parse(source))
        self._knows_developer = '"developer"' in source or "'developer'" in source

    def render(self, body: Mapping[str, Any]) -> str:
        """Return the prompt that the engine makes of a checked chat body. Raises TemplateRefused."""
        try:
            messages = [self._message(message) for message in body["messages"]]
            if not self._knows_developer:
                messages = _developer_to_system(messages)
            return self._rendered(messages, body)
        except jinja2.TemplateError as error:
            raise TemplateRefused(str(error)) from error
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
            raise TemplateRefused("the chat does not fit the model's template") from error

    def _rendered(self, messages: list[dict[str, Any]], body: Mapping[str, Any]) -> str:
        if not body.get("continue_final_message"):
            return self._fill(messages, body, add_generation_prompt=body.get("add_generation_prompt", True))
        marked = [*messages[:-1], _marked(messages[-1])]
        text, _, rest = self._fill(marked, body, add_generation_prompt=False).rpartition(CONTINUE_MARK.strip())
        return text if rest.startswith(" ") else text.rstrip()  # the template trims what it is given

    def _fill(self, messages: list[dict[str, Any]], body: Mapping[str, Any], **own: Any) -> str:
        variables = {
            **self._special_tokens,
            **(body.get("chat_template_kwargs") or {}),
            "documents": body.get("documents"),
            "tools": body.get("tools"),
            "messages": messages,
            **own,
        }
        return _bounded(self._template.generate(variables))

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message as the engine hands it to the template: fields that it does not know are left out."""
        role = message["role"]
        out = {"role": role, "content": self._content(role, message.get("content"))}
        out |= {name: message[name] for name in ("name", "task") if isinstance(message.get(name), str)}
        match role:
            case "assistant":
                out |= _thought(message) | _calls(message)
            case "tool" if "tool_call_id" in message:
                out["tool_call_id"] = message["tool_call_id"]
            case "developer":
                out["tools"] = message.get("tools")
        return out

    def _content(self, role: str, content: Any) -> str | list[dict[str, Any]]:
        """Return the content as text or, for a template that wants them and all but tools, as parts."""
        parts = _as_parts(content)
        if role == "system":
            parts = list(_without_billing(parts))
        if self._wants_parts:
            return _text(parts) if role == "tool" else parts
        return _text([part for part in parts if part["text"]])


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    # Not for HTML: escaping would change the prompt. The sandbox keeps templates from the process.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_GenerationBlock, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
    return environment


class _GenerationBlock(jinja2.ext.Extension):
    """`{% generation %}` marks what the assistant said, for training; here it is just its contents."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Any) -> Any:
        """Return the statements inside."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False} | options)


def _bounded(pieces: Iterable[str]) -> str:
    """Join what a template writes. Raises TemplateRefused as soon as it is too much."""
    taken, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise TemplateRefused(f"the prompt made of them has more than {MAX_CHARACTERS} characters")
        taken.append(piece)
    return "".join(taken)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)  # noqa: DTZ005 - the engine's local time, which templates expect


def _loops_over_content(root: jinja2.nodes.Template) -> bool:
    """Whether the template wants a message's content as a list of parts rather than as text."""
    return any(_is_content(loop.iter) for loop in root.find_all(jinja2.nodes.For))


def _is_content(node: jinja2.nodes.Node) -> bool:
    match node:
        case jinja2.nodes.Name(name="content") | jinja2.nodes.Getattr(attr="content"):
            return True
        case jinja2.nodes.Getitem(arg=jinja2.nodes.Const(value="content")):
            return True
        case jinja2.nodes.Getitem(arg=jinja2.nodes.Slice()) | jinja2.nodes.Filter():
            return node.node is not None and _is_content(node.node)
    return False


def _as_parts(content: str | Sequence[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else [dict(part) for part in content]


def _without_billing(parts: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Leave out the line, another in each request, by which a coding client names itself, as the engine does."""
    for part in parts:
        if not part["text"].startswith(BILLING_LINE):
            yield part
        elif rest := part["text"].partition("\n")[2]:
            yield {**part, "text": rest}


def _thought(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an assistant thought, under both of its names."""
    newer, older = message.get("reasoning"), message.get("reasoning_content")
    thought = older if newer is None else newer
    return {} if thought is None else {"reasoning": thought, "reasoning_content": thought}


def _calls(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return {"tool_calls": [_call(call) for call in calls]} if calls else {}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call["function"])
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(value: object) -> dict[str, Any]:
    """Read a tool call's arguments as the engine does: what is no JSON object becomes an empty one."""
    try:
        parsed = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _developer_to_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Do as the engine with a template that does not know developers: one system message, first."""
    if not any(m["role"] == "developer" for m in messages):
        return messages
    renamed = [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages]
    system = [m for m in renamed if m["role"] == "system"]
    if len(system) == 1 and renamed[0] is system[0]:
        return renamed
    texts = [_text(m["content"]) for m in system]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *(m for m in renamed if m["role"] != "system")]


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)


def _marked(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content + CONTINUE_MARK}
    if not content:
        raise TemplateRefused("continue_final_message needs a final message with text")
    return {**message, "content": [*content[:-1], {**content[-1], "text": content[-1]["text"] + CONTINUE_MARK}]}
