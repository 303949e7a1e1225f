"""What a person reads: prompt and answer of a job, and why something did not work. Text, never markup."""

import json
from typing import Any, Final

from inference import bodies, errors
from inference.api.errors import headers
from inference.models import Job

SHOWN_CHARACTERS: Final = 20_000
"""More is cut: a page is no place for megabytes."""


def prompt(job: Job) -> str:
    """Return what was asked."""
    try:
        body = json.loads(bodies.of(job))
    except bodies.Missing as error:
        return f"({error})"
    if "messages" in body:
        return cut(
            "\n\n".join(_message(message, alone=len(body["messages"]) == 1) for message in body["messages"])
        )
    asked = body.get("prompt", "")
    return cut(asked) if isinstance(asked, str) else f"{len(asked)} token ids"


def answer(job: Job) -> str:
    """Return what the engine said; empty while there is nothing."""
    choices = json.loads(job.result).get("choices") if job.result else None
    if not choices:
        return ""
    message = choices[0].get("message") or {}
    calls = message.get("tool_calls")
    said = message.get("content") or choices[0].get("text") or (_pretty(calls) if calls else "")
    return cut(said)


def why(error: errors.SluiceError, said: str = "") -> str:
    """Return an error in sentences, `said` in place of its own message, and when to try again if that is known."""
    said = said or error.message
    seconds = headers(error).get("Retry-After")
    told = said.removesuffix(" Try again.") if seconds else said
    told = told[:1].upper() + told[1:] + ("" if told.endswith((".", "!", "?")) else ".")
    return f"{told} Try again in {seconds} s." if seconds else told


def cut(text: str) -> str:
    """Return at most `SHOWN_CHARACTERS` of the text, and say so."""
    rest = len(text) - SHOWN_CHARACTERS
    return text if rest <= 0 else f"{text[:SHOWN_CHARACTERS]}\n\n… and {rest} more characters"


def _message(message: dict[str, Any], *, alone: bool) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])
    return text if alone else f"{message['role']}: {text}"


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
