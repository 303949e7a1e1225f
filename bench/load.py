"""`python -m bench.load SPEC`: a client in a process of its own, so that it is not what is measured.

SPEC is JSON, see `Spec`; what was measured is printed as JSON. Knows only OpenAI's protocol.
"""

import asyncio
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import uvloop

from bench import places

_USAGE: Final = re.compile(rb'"completion_tokens": ?(\d+)')
_TIMEOUT: Final = aiohttp.ClientTimeout(total=600)


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go: the stack, or its engine's own socket."""

    base_url: str
    key: str = ""
    socket: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One piece of load."""

    targets: list[Target]
    """Asked in turn, request by request."""
    requests: int
    """For each target."""
    at_once: int
    body: Mapping[str, Any]
    streamed_share: float = 0.5


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer."""

    first_seconds: float
    """From the request until its first byte of content."""
    tokens: int


def run(spec: Spec) -> tuple[float, list[list[Answered]]]:
    """Run it in another process; returns the seconds it took, and each target's answers in order."""
    printed = places.output("bench.load", json.dumps(dataclasses.asdict(spec)), env=os.environ)
    found = json.loads(printed)
    return found["seconds"], [[Answered(*answer) for answer in answers] for answers in found["answers"]]


def parse(text: str) -> Spec:
    """Read a specification as `run` writes it."""
    fields = json.loads(text)
    return Spec(**{**fields, "targets": [Target(**target) for target in fields["targets"]]})


def is_streamed(number: int, share: float) -> bool:
    """Whether the request of this number is streamed: evenly spread, not by chance."""
    return int((number + 1) * share) > int(number * share)


async def _load(spec: Spec) -> dict[str, Any]:
    answers: list[list[Answered]] = [[] for _ in spec.targets]
    numbers = iter(range(spec.requests))
    async with _sessions(spec) as sessions:
        began = time.perf_counter()
        await asyncio.gather(*(_worker(spec, sessions, numbers, answers) for _ in range(spec.at_once)))
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "answers": [[dataclasses.astuple(a) for a in each] for each in answers]}


@asynccontextmanager
async def _sessions(spec: Spec) -> AsyncIterator[list[aiohttp.ClientSession]]:
    sessions = [connect(target) for target in spec.targets]
    try:
        yield sessions
    finally:
        for session in sessions:
            await session.close()


def connect(target: Target) -> aiohttp.ClientSession:
    """Return connections to the target, as many as are wanted at once."""
    connector = aiohttp.UnixConnector(target.socket, limit=0) if target.socket else aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {target.key}"} if target.key else {}
    return aiohttp.ClientSession(target.base_url, connector=connector, timeout=_TIMEOUT, headers=headers)


async def _worker(
    spec: Spec, sessions: list[aiohttp.ClientSession], numbers: Iterator[int], answers: list[list[Answered]]
) -> None:
    for number in numbers:
        for session, kept in zip(sessions, answers, strict=True):
            kept.append(await _ask(session, spec.body, stream=is_streamed(number, spec.streamed_share)))


async def _ask(session: aiohttp.ClientSession, body: Mapping[str, Any], *, stream: bool) -> Answered:
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}} if stream else dict(body)
    began, first, tail = time.perf_counter(), 0.0, b""
    async with session.post("/v1/chat/completions", json=asked) as answer:
        async for piece in answer.content.iter_any():
            first = first or time.perf_counter() - began
            tail = tail[-4096:] + piece
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {tail[-500:]!r}")
    found = _USAGE.findall(tail)
    if not found:
        raise RuntimeError(f"an answer without usage: {tail[-500:]!r}")
    return Answered(first, int(found[-1]))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(uvloop.run(_load(parse(sys.argv[1])))))
