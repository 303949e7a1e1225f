"""Builders for tests of engines, and what they ask of the process table."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from django.conf import settings

from inference.states import Endpoint, EngineKind
from tests import factories
from workers import process_tree
from workers.engine import Engine, EngineCall, EngineGauges, EngineSpec

DEADLINE_SECONDS = 30.0
"""No test waits longer for a fact; only a broken one waits so long."""


def make_spec(folder: Path, **overrides: Any) -> EngineSpec:
    """A simulated engine on the CPU with the seeded model."""
    values: dict[str, Any] = {
        "kind": EngineKind.SIM,
        "model": factories.make_model_limits(),
        "device": "cpu",
        "socket_path": folder / "engine.sock",
        "log_path": folder / "engine.log",
        "models_dir": settings.MODELS_DIR,
    }
    return EngineSpec(**values | overrides)


def make_chat_call(content: str = "Tell me a story.", *, priority: int = 0, **fields: Any) -> EngineCall:
    """A greedy chat of one message."""
    body = {**factories.make_chat(content), "temperature": 0, **fields}
    return EngineCall(Endpoint.CHAT, json.dumps(body).encode(), request_id="test", priority=priority)


def make_completion_call(prompt: str = "Once upon a time", **fields: Any) -> EngineCall:
    """A greedy completion."""
    body = {"model": factories.MODEL, "prompt": prompt, "temperature": 0, **fields}
    return EngineCall(Endpoint.COMPLETIONS, json.dumps(body).encode(), request_id="test")


async def until(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `fact`, asked again and again, holds."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await fact():  # noqa: ASYNC110 (the fact lives in another process: no event tells of it)
            await asyncio.sleep(0.02)


async def until_gauges(engine: Engine, fact: Callable[[EngineGauges], bool]) -> None:
    """Wait until the engine says so of itself."""

    async def holds() -> bool:
        return fact(await engine.gauges())

    await until(holds)


async def until_gone(*pids: int) -> None:
    """Wait until none of the processes runs."""

    async def gone() -> bool:
        return not {process.pid for process in process_tree.processes()} & set(pids)

    await until(gone)


def processes_of(marker: str | Path) -> dict[int, str]:
    """Processes whose command line holds `marker`, which only one test uses; with all that descends from them."""
    table = process_tree.processes()
    found = {process.pid for process in table if str(marker) in command_line(process.pid)}
    while grown := {process.pid for process in table if process.parent in found} - found:
        found |= grown
    return {pid: command_line(pid) for pid in found}


def command_line(pid: int) -> str:
    """The process's command; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def environment(pid: int) -> str:
    """What the process was started with."""
    return Path(f"/proc/{pid}/environ").read_text()
