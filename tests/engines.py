"""Builders for tests of engines, and what they ask of the process table."""

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
from django.conf import settings

from inference.states import Endpoint, EngineKind
from project.stack import ports
from tests import factories
from workers import process_tree
from workers.engine import Engine, EngineAway, EngineCall, EngineGauges, EngineSpec

DEADLINE_SECONDS = 30.0
"""No test waits longer for a fact; only a broken one waits so long."""
HANGS: Final = "Hang, please."
"""What stops the simulated engine, if it was told so."""

Child = tuple[Engine, EngineSpec]
"""An engine that its worker starts, and how."""


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


def make_long_call() -> EngineCall:
    """A chat whose answer no engine finishes while a test looks."""
    return make_chat_call(max_tokens=4_000, ignore_eos=True)


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


class TcpSim:
    """Somebody else's engine: the simulated one, on a TCP port that it keeps through its deaths."""

    def __init__(self, *options: str, key: str = "") -> None:
        self.port = ports.any_free("127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port}"
        self._options: tuple[str, ...] = ("--model", factories.MODEL, *options)
        self._env = {**os.environ, "SLUICE_SIM_KEY": key}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Begin to load; `options` count for this life."""
        command = (sys.executable, "-m", "workers.sim", "--port", str(self.port), *self._options, *options)
        self._process = subprocess.Popen(command, env=self._env, cwd=settings.BASE_DIR)

    def gauge(self, name: str) -> int:
        """One number of its own metrics."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False, timeout=DEADLINE_SECONDS).text
        found = re.search(rf"^{re.escape(name)}{{.*}} ([0-9]+)$", page, re.MULTILINE)
        assert found, page
        return int(found[1])

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def tcp_sim(*options: str, key: str = "") -> Iterator[TcpSim]:
    """One that runs for the length of a `with`."""
    sim = TcpSim(*options, key=key)
    sim.start()
    try:
        yield sim
    finally:
        sim.kill()


async def start_when_there(engine: Engine) -> None:
    """Start an external engine as a worker does: by asking until it answers."""

    async def is_there() -> bool:
        try:
            await engine.start()
        except EngineAway:
            return False
        return True

    await until(is_there)


@contextlib.asynccontextmanager
async def on_tcp(socket_path: Path) -> AsyncIterator[str]:
    """URL of a port whose connections all end at the Unix socket: an engine that is there already, over TCP."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            engine_reader, engine_writer = await asyncio.open_unix_connection(str(socket_path))
            halves = [asyncio.create_task(_pump(reader, engine_writer))]
            halves += [asyncio.create_task(_pump(engine_reader, writer))]
            # Whoever closes first, closes both: so an abort arrives as it would without this.
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
            for half in halves:
                half.cancel()
            await asyncio.gather(*halves, return_exceptions=True)
            engine_writer.close()
        writer.close()

    server = await asyncio.start_server(join, "127.0.0.1")
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


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
