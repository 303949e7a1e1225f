"""`python -m bench.returning SPEC`: requests at given moments; who is refused comes back when it was told to.

Clients in a process of their own. SPEC is a file of JSON, as `bench.open_load` has it; what became of each request
is printed as JSON. No two of them ask the same.
"""

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import uvloop

from bench import load, open_load, stack
from bench.open_load import Request, Spec

REFUSED: Final = 429
MOST_TRIES: Final = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a client was answered, try by try."""

    statuses: list[int] = field(default_factory=list)
    """0: no answer at all."""
    told_seconds: list[float] = field(default_factory=list)
    """`Retry-After` of each refusal."""

    @property
    def was_refused(self) -> bool:
        """Whether it was told to come back."""
        return self.statuses[0] == REFUSED

    @property
    def came_in_at_once(self) -> bool:
        """Whether its first retry was let in."""
        return self.statuses[1:2] == [200]


def run(spec: Spec) -> list[Outcome]:
    """Run it in another process; returns what became of the requests, in their order. Raises RuntimeError."""
    return [Outcome(*outcome) for outcome in open_load.printed_by("bench.returning", spec)]


async def _load(spec: Spec) -> list[Outcome]:
    async with load.connect(spec.target) as session:
        began = time.perf_counter()
        numbered = enumerate(spec.requests)
        return await asyncio.gather(*(_come(session, number, each, began) for number, each in numbered))


async def _come(session: aiohttp.ClientSession, number: int, request: Request, began: float) -> Outcome:
    outcome, body = Outcome(), _body(number, request)
    await asyncio.sleep(max(0.0, began + request.at - time.perf_counter()))
    while len(outcome.statuses) < MOST_TRIES:
        status, told = await _ask(session, body, request.key)
        outcome.statuses.append(status)
        if told is None:
            break
        outcome.told_seconds.append(told)
        await asyncio.sleep(told)
    return outcome


async def _ask(session: aiohttp.ClientSession, body: Mapping[str, Any], key: str) -> tuple[int, float | None]:
    """Return the status, and when to come back if it is a refusal that says so."""
    try:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.post(open_load.CHAT, json=body, headers=headers) as answer:
            await answer.read()
            told = answer.headers.get("Retry-After") if answer.status == REFUSED else None
            return answer.status, None if told is None else float(told)
    except aiohttp.ClientError:
        return 0, None


def _body(number: int, request: Request) -> Mapping[str, Any]:
    prompt = f"{number} " + "the " * request.prompt_tokens
    messages = [{"role": "user", "content": prompt}]
    sizes = {"prompt_tokens": request.prompt_tokens, "output_tokens": request.output_tokens}
    return stack.body(**sizes, messages=messages)


if __name__ == "__main__":
    outcomes = uvloop.run(_load(open_load.parse(Path(sys.argv[1]).read_text())))
    sys.stdout.write(json.dumps([dataclasses.astuple(outcome) for outcome in outcomes]))
