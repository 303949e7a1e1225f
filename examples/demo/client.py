"""A plain HTTP client of the OpenAI API: streams one answer, and notes when what came."""

import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import httpx

from examples.demo.prompts import Prompt

JOB_ID_HEADER: Final = "x-sluice-job-id"


@dataclass(slots=True)
class Call:
    """One prompt on its way, and what came back."""

    prompt: Prompt
    job_id: str = ""
    text: str = ""
    error: str = ""
    sent_at: float = 0.0
    first_token_seconds: float | None = None
    total_seconds: float | None = None
    """Set when the call is over, well or not."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.total_seconds is not None


async def send(client: httpx.AsyncClient, call: Call) -> None:
    """Send the prompt and read its answer to the end; what goes wrong is noted in the call."""
    call.sent_at = time.monotonic()
    try:
        await _stream(client, call)
    except httpx.HTTPError as error:
        call.error = f"{type(error).__name__}: {error}"
    call.total_seconds = time.monotonic() - call.sent_at
    if not call.error and not call.text.strip():
        call.error = "the answer is empty"


async def _stream(client: httpx.AsyncClient, call: Call) -> None:
    body = {**call.prompt.body, "stream": True}
    async with client.stream("POST", call.prompt.path, json=body) as answer:
        call.job_id = answer.headers.get(JOB_ID_HEADER, "")
        if not answer.is_success:
            call.error = f"{answer.status_code}: {(await answer.aread()).decode()[:200]}"
            return
        async for event in _events(answer):
            _take(call, event)


async def _events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """Yield the stream's events up to OpenAI's end mark."""
    async for line in answer.aiter_lines():
        if line == "data: [DONE]":
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def _take(call: Call, event: dict[str, Any]) -> None:
    if "error" in event:
        call.error = str(event["error"].get("message", event["error"]))
        return
    for choice in event.get("choices", ()):
        piece = choice.get("text") or choice.get("delta", {}).get("content") or ""
        if piece and call.first_token_seconds is None:
            call.first_token_seconds = time.monotonic() - call.sent_at
        call.text += piece


async def job(client: httpx.AsyncClient, job_id: str) -> dict[str, Any]:
    """Fetch the job's record from the native API, once its end is there.

    That is a moment after the answer's last part; the job's events end with it.
    """
    async with client.stream("GET", f"/api/v1/jobs/{job_id}/events/") as events:
        async for _ in events.aiter_bytes():
            pass
    answer = await client.get(f"/api/v1/jobs/{job_id}/")
    record: dict[str, Any] = answer.raise_for_status().json()
    return record
