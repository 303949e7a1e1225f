"""`python -m bench.open_load SPEC`: requests at the moments they are told, whatever became of earlier ones.

A client in a process of its own. SPEC is a file of JSON, see `Spec`; what was measured is printed as JSON.
"""

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from bench import load, places
from bench.load import Target
from bench.stack import body as chat

CHAT: Final = "/v1/chat/completions"
JOBS: Final = "/api/v1/jobs/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to come."""

    at: float
    """Seconds from the start."""
    prompt_tokens: int
    output_tokens: int
    service_tier: str = ""
    """Empty: none is named, as to an engine itself."""
    stream: bool = False
    waits: bool = True
    """Whether it waits for its answer (`/v1`), or only for the job's id (`/api/v1/jobs/`)."""
    key: str = ""
    """Empty: the target's."""


@dataclass(frozen=True, slots=True)
class Background:
    """Calls that are always under way, one begun when another ends."""

    at_once: int
    bodies: Sequence[Mapping[str, Any]]
    """In turn."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request."""

    status: int
    """0: no answer at all."""
    job_id: str
    sent_at: float
    """By the wall clock."""
    first_seconds: float
    """Until the first byte of content."""
    seconds: float
    """Until the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One piece of load."""

    target: Target
    requests: list[Request]
    background: Background | None = None
    warm_seconds: float = 0.0
    """From the background's start until the first request."""


def run(spec: Spec) -> list[Answer]:
    """Run it in another process; returns the answers in the order of the requests. Raises RuntimeError."""
    return [Answer(*answer) for answer in printed_by("bench.open_load", spec)]


def printed_by(module: str, spec: Spec) -> list[Any]:
    """Run it by the module, in another process; returns what that printed of each request. Raises RuntimeError."""
    with places.folder() as where:
        path = where / "load.json"
        path.write_text(json.dumps(dataclasses.asdict(spec)))
        printed: list[Any] = json.loads(places.output(module, str(path), env=os.environ))
    return printed


def all_good(answers: list[Answer]) -> list[Answer]:
    """Return the answers. Raises RuntimeError if one is no success: then nothing was measured."""
    if bad := [answer for answer in answers if answer.status not in {200, 201}]:
        raise RuntimeError(f"{len(bad)} of {len(answers)} requests failed, the first with {bad[0].status}")
    return answers


def parse(text: str) -> Spec:
    """Read a specification as `run` writes it."""
    fields = json.loads(text)
    background = fields["background"]
    return Spec(
        target=Target(**fields["target"]),
        requests=[Request(**request) for request in fields["requests"]],
        background=Background(**background) if background else None,
        warm_seconds=fields["warm_seconds"],
    )


async def _load(spec: Spec) -> list[Answer]:
    async with load.connect(spec.target) as session, _background(session, spec):
        await asyncio.sleep(spec.warm_seconds)
        began = time.perf_counter()
        return await asyncio.gather(*(_at(session, request, began) for request in spec.requests))


@contextlib.asynccontextmanager
async def _background(session: aiohttp.ClientSession, spec: Spec) -> AsyncIterator[None]:
    told = spec.background or Background(0, ())
    bodies = itertools.cycle(told.bodies)
    tasks = [asyncio.create_task(_without_end(session, bodies)) for _ in range(told.at_once)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _without_end(session: aiohttp.ClientSession, bodies: Iterator[Mapping[str, Any]]) -> None:
    for body in bodies:
        async with session.post(CHAT, json=body) as answer:
            await answer.read()


async def _at(session: aiohttp.ClientSession, request: Request, began: float) -> Answer:
    await asyncio.sleep(max(0.0, began + request.at - time.perf_counter()))
    try:
        return await _ask(session, request)
    except aiohttp.ClientError:
        return Answer(0, "", 0.0, 0.0, 0.0)


async def _ask(session: aiohttp.ClientSession, request: Request) -> Answer:
    sent_at, began, first = time.time(), time.perf_counter(), 0.0
    headers = {"Authorization": f"Bearer {request.key}"} if request.key else {}
    path = CHAT if request.waits else JOBS
    async with session.post(path, json=_body(request), headers=headers) as answer:
        async for _ in answer.content.iter_any():
            first = first or time.perf_counter() - began
        job_id = answer.headers.get("x-sluice-job-id", "")
        return Answer(answer.status, job_id, sent_at, first, time.perf_counter() - began)


def _body(request: Request) -> Mapping[str, Any]:
    told = {"service_tier": request.service_tier} if request.service_tier else {}
    asked = chat(
        prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens, stream=request.stream, **told
    )
    return asked if request.waits else {"body": asked}


if __name__ == "__main__":
    answers = uvloop.run(_load(parse(Path(sys.argv[1]).read_text())))
    sys.stdout.write(json.dumps([dataclasses.astuple(answer) for answer in answers]))
