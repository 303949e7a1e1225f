"""`python -m bench.posts SPEC`: POSTs as fast as they are answered, to one path of one or several web processes.

A client in a process of its own. SPEC is a file of JSON, see `Spec`; what was measured is printed as JSON.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import uvloop

from bench import load, places
from bench.load import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One piece of load."""

    targets: Sequence[Target]
    """Asked in turn, request by request."""
    path: str
    bodies: Sequence[Mapping[str, Any]]
    """In turn, each as many times as it takes."""
    requests: int
    at_once: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    """0: no answer at all."""
    code: str
    """Of a refusal."""


@dataclass(frozen=True, slots=True)
class Posted:
    """All answers, and how long they took together."""

    seconds: float
    answers: Sequence[Answer]

    def rate(self) -> float:
        """Return the requests/s. Raises RuntimeError if one was no success: then nothing was measured."""
        if bad := [answer for answer in self.answers if not 200 <= answer.status < 300]:
            raise RuntimeError(f"{len(bad)} of {len(self.answers)} failed, the first: {bad[0]}")
        return len(self.answers) / self.seconds


def run(spec: Spec) -> Posted:
    """Run it in another process. Raises RuntimeError."""
    with places.folder() as where:
        path = where / "posts.json"
        path.write_text(json.dumps(dataclasses.asdict(spec)))
        found = json.loads(places.output("bench.posts", str(path), env=os.environ))
    return Posted(found["seconds"], [Answer(*answer) for answer in found["answers"]])


def parse(text: str) -> Spec:
    """Read a specification as `run` writes it."""
    fields = json.loads(text)
    return Spec(**{**fields, "targets": [Target(**target) for target in fields["targets"]]})


async def _load(spec: Spec) -> dict[str, Any]:
    async with contextlib.AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(load.connect(target)) for target in spec.targets]
        numbers, answers = iter(range(spec.requests)), list[Answer]()
        began = time.perf_counter()
        await asyncio.gather(*(_client(spec, sessions, numbers, answers) for _ in range(spec.at_once)))
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "answers": [dataclasses.astuple(answer) for answer in answers]}


async def _client(
    spec: Spec, sessions: Sequence[aiohttp.ClientSession], numbers: Iterator[int], answers: list[Answer]
) -> None:
    for number in numbers:
        session, body = sessions[number % len(sessions)], spec.bodies[number % len(spec.bodies)]
        try:
            async with session.post(spec.path, json=body, headers=spec.headers) as answer:
                content = await answer.read()
                answers.append(Answer(answer.status, "" if answer.status < 400 else _code(content)))
        except aiohttp.ClientError as error:
            answers.append(Answer(0, type(error).__name__))


def _code(content: bytes) -> str:
    try:
        return str(json.loads(content)["error"]["code"])
    except (ValueError, LookupError, TypeError):
        return repr(content[:100])


if __name__ == "__main__":
    sys.stdout.write(json.dumps(uvloop.run(_load(parse(Path(sys.argv[1]).read_text())))))
