"""An engine that runs as a child process of its worker, under the shim."""

import asyncio
import contextlib
import fcntl
import logging
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from workers import process_tree, warm_up
from workers.engine import (
    EngineCall,
    EngineDown,
    EngineFault,
    EngineGauges,
    EngineGone,
    EngineRefused,
    EngineSpec,
)
from workers.engine_client import DEFAULT_EXTRAS, EngineClient, Extras
from workers.progress import Progress

logger = logging.getLogger(__name__)

_ROOT: Final = Path(__file__).resolve().parent.parent
_WITHHELD: Final = frozenset(
    {"DJANGO_SECRET_KEY", "DATABASE_URL", "REDIS_URL", "SLUICE_ENGINE_KEY", "FLOWER_BASIC_AUTH"}
)
"""Of the worker's environment; an engine has no business with them."""
_HEALTH_SECONDS: Final = 0.1
_LOCK_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 5.0
"""Between two looks at an engine's progress, or a quarter of what it may be silent for."""
_LOG_BYTES: Final = 10 * 1024 * 1024
"""A log that is longer when an engine starts is kept as `.1`, and a new one begun."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kind of engine is started."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    extras: Extras = DEFAULT_EXTRAS
    """What its requests carry."""


class ChildEngine:
    """Implements `workers.engine.Engine` for any engine that serves OpenAI's protocol on a Unix socket."""

    def __init__(self, spec: EngineSpec, launch: Launch) -> None:
        self.exited = asyncio.Event()
        self.exited.set()
        self._spec = spec
        self._launch = launch
        self._hold: int | None = None
        self._client: EngineClient | None = None
        self._watch: asyncio.Task[None] | None = None
        self._status: int | None = None
        self._look_seconds = min(_LOOK_SECONDS, spec.model.stall_seconds / 4)
        self._progress = self._begin_progress()
        self._overseer: asyncio.Task[None] | None = None

    # Life

    async def start(self) -> None:
        """See `Engine.start`."""
        await self.stop()
        await self._spawn()
        self._client = EngineClient.on_socket(self._spec.socket_path)
        self._client.extras = self._launch.extras
        while not await self._client.is_healthy():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.exited.wait(), _HEALTH_SECONDS)
            if self.exited.is_set():
                raise EngineGone(f"the engine exited with status {self._status} while it loaded{self._see_log()}")
        self._progress = self._begin_progress()
        self._overseer = asyncio.create_task(self._oversee(self._client))

    async def stop(self) -> None:
        """See `Engine.stop`."""
        self._let_go()
        await self.exited.wait()
        if self._overseer:
            self._overseer.cancel()
            await asyncio.gather(self._overseer, return_exceptions=True)
            self._overseer = None
        if self._client:
            await self._client.close()
            self._client = None

    async def _spawn(self) -> None:
        path = self._spec.socket_path
        path.parent.mkdir(parents=True, exist_ok=True)
        with await _lock(path.with_suffix(".lock")) as lock:
            path.unlink(missing_ok=True)  # a stale one stops vLLM: "Address already in use"
            reader, self._hold = os.pipe()
            try:
                process = await self._start_shim(reader, lock)
            finally:
                os.close(reader)
        self.exited.clear()
        self._watch = asyncio.create_task(self._wait(process))
        logger.info("engine started", extra={"action": "engine_started", "pid": process.pid})

    async def _start_shim(self, reader: int, lock: IO[bytes]) -> asyncio.subprocess.Process:
        """Start the shim, leader of a new session; its stdin is the pipe, and it holds the lock until it exits."""
        with self._open_log() as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "workers.shim", *self._launch.command),
                stdin=reader,
                stdout=log,
                stderr=log,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
                cwd=_ROOT,
                env=self._environment(),
            )

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        self._status = await process.wait()
        if self._status < 0:
            # The shim itself was killed, and could not clean up. Its number is free again: look at once.
            while process_tree.kill(process.pid):  # noqa: ASYNC110 (there is no event for another's children)
                await asyncio.sleep(_LOCK_SECONDS)
        self._let_go()
        logger.info("engine gone", extra={"action": "engine_gone", "pid": process.pid, "status": self._status})
        self.exited.set()

    async def _oversee(self, client: EngineClient) -> None:
        """Kill the engine if it hangs: then it falls as by a crash, and all that follows from one follows."""
        while not self.exited.is_set():
            await asyncio.sleep(self._look_seconds)
            said = await _gauges_or_none(client)
            if self._progress.hangs(said, now=asyncio.get_running_loop().time()):
                logger.error("the engine hangs: it is killed", extra={"action": "engine_hung"})
                self._let_go()
                return

    def _begin_progress(self) -> Progress:
        return Progress(self._spec.model, look_seconds=self._look_seconds)

    def _let_go(self) -> None:
        """Close the pipe: the shim then kills the engine."""
        if self._hold is not None:
            os.close(self._hold)
            self._hold = None

    def _environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if name not in _WITHHELD}
        return {**ours, **self._launch.env, **self._spec.env}

    def _open_log(self) -> IO[bytes]:
        path = self._spec.log_path
        if path is None:
            return os.fdopen(os.dup(2), "ab")
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.rename(path.with_name(f"{path.name}.1"))
        return path.open("ab")

    def _see_log(self) -> str:
        return f"; see {self._spec.log_path}" if self._spec.log_path else ""

    # Work

    async def generate(self, call: EngineCall) -> bytes:
        """See `Engine.generate`."""
        client, progress = self._connected(), self._progress
        with progress.call(call.body):
            reply = await client.generate(call)
            progress.hear()
            return reply

    async def stream(self, call: EngineCall) -> AsyncGenerator[bytes, None]:
        """See `Engine.stream`."""
        client, progress = self._connected(), self._progress
        with progress.call(call.body):
            async with contextlib.aclosing(client.stream(call)) as pieces:
                async for piece in pieces:
                    progress.hear()
                    yield piece

    async def gauges(self) -> EngineGauges:
        """See `Engine.gauges`."""
        return await self._connected().gauges()

    async def warm_up(self) -> None:
        """See `Engine.warm_up`."""
        model = self._spec.model
        try:
            # Overseen by its own time limit: a first answer may have to wait until all is compiled.
            reply = await self._connected().generate(warm_up.question(model))
        except EngineRefused as error:
            raise EngineFault(f"warm-up: {error}: {error.body!r}") from error
        warm_up.check(model, reply)

    def _connected(self) -> EngineClient:
        if self._client is None or self.exited.is_set():
            raise EngineDown("the engine is not running")
        return self._client


async def _gauges_or_none(client: EngineClient) -> EngineGauges | None:
    try:
        return await client.gauges()
    except (EngineGone, ValueError):  # no answer, or none that can be read: it says nothing
        return None


async def _lock(path: Path) -> IO[bytes]:
    """Take the lock that a shim holds while anything of its engine lives: so engines on one socket never overlap.

    Matters when a worker was killed and its successor starts while the old engine is still being cleared away.
    """
    file = path.open("ab")
    waited = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waited:
                logger.warning("waiting until the previous engine is gone", extra={"action": "engine_lock_wait"})
            waited = True
            await asyncio.sleep(_LOCK_SECONDS)
        except BaseException:
            file.close()
            raise
        else:
            return file
