"""Keeps the parts running, on circus: start, restart with backoff, stop in order."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

import psutil
import zmq
from circus.arbiter import Arbiter
from circus.process import Process
from circus.watcher import Watcher
from django.conf import settings
from tornado.ioloop import IOLoop

from project.stack import parts
from project.stack.config import StackError
from project.stack.output import Output
from project.stack.parts import Part, Stage
from project.stack.restarts import Restarts

TICK_SECONDS: Final = 0.2
HURRY_SECONDS: Final = 3.0
"""Asked twice to stop, a part gets this long before it is killed."""


@dataclass(slots=True)
class Life:
    """One part's present run and past."""

    part: Part
    watcher: Watcher
    restarts: Restarts = field(default_factory=Restarts)
    is_ready: bool = False
    started_at: float = 0.0
    restart_at: float | None = None
    """Monotonic time of the next start while the part is down."""

    @property
    def is_running(self) -> bool:
        """Whether its process was there at the last look."""
        return bool(self.watcher.processes)

    @property
    def ran_seconds(self) -> float:
        """Length of the present run."""
        return time.monotonic() - self.started_at


class Supervisor:
    """Owns all child processes. Use it from one running event loop, in the main thread.

    circus spawns, captures output, reaps and stops; when to restart is decided here, since circus itself knows no
    backoff. Its control sockets are bound inside this process only (inproc), so nobody else can reach them.
    """

    def __init__(self, all_parts: Iterable[Part], *, env: Mapping[str, str], output: Output) -> None:
        self._output = output
        self._context = zmq.Context()
        self.lives = {part.name: Life(part, self._watcher(part, env)) for part in all_parts}
        self._arbiter = Arbiter(
            [life.watcher for life in self.lives.values()],
            endpoint="inproc://control",
            pubsub_endpoint="inproc://events",
            context=self._context,
            loop=IOLoop.current(),
            check_delay=-1,  # `tend` does what circus's own periodic check would
            proc_name=shlex.join(
                [sys.executable, *sys.argv]
            ),  # circus would hide what runs behind a title of its own
        )

    def _watcher(self, part: Part, env: Mapping[str, str]) -> Watcher:
        command, *arguments = parts.leashed(part.command)
        hooks: dict[str, Any] = {"before_reap": (self._read_to_the_end, True), "after_reap": (self._on_reap, True)}
        return Watcher(
            part.name,
            shlex.quote(command),
            args=arguments,
            env=dict(env),
            working_dir=str(settings.BASE_DIR),
            autostart=False,
            graceful_timeout=part.stop_seconds,
            stdout_stream={"stream": self._channel(part.name, "stdout")},
            stderr_stream={"stream": self._channel(part.name, "stderr")},
            hooks=hooks,
        )

    def _channel(self, name: str, channel: str) -> Any:
        return lambda datum: self._output.feed(name, channel, datum["data"])

    async def open(self) -> None:
        """Get ready to start parts."""
        await self._arbiter.start()

    async def start(self, name: str) -> None:
        """Start a part. A command that can't be run counts as a death."""
        life = self.lives[name]
        life.restart_at, life.is_ready, life.started_at = None, False, time.monotonic()
        await life.watcher.start()
        if not life.is_running:
            self._note_death(life, "could not be started")

    async def tend(self) -> None:
        """Restart what dies, for ever. Raises StackError when a part failed for good."""
        while True:
            self._arbiter.reap_processes()
            for life in self.lives.values():
                await self._tend_one(life)
            await asyncio.sleep(TICK_SECONDS)

    async def _tend_one(self, life: Life) -> None:
        if life.restarts.failed_for_good:
            raise StackError(self._obituary(life))
        if life.restart_at is not None and time.monotonic() >= life.restart_at:
            await self.start(life.part.name)

    def _read_to_the_end(self, *, watcher: Watcher, process_pid: int, **_: object) -> bool:
        """Show what the dead process wrote last: circus would close its pipes unread, and keep their handlers."""
        process = watcher.processes[process_pid]
        if watcher.stream_redirector:
            watcher.stream_redirector.remove_redirections(process)
        for channel, pipe in (("stdout", process.stdout), ("stderr", process.stderr)):
            if not pipe.closed:
                self._output.feed(watcher.name, channel, _read_available(pipe))
        return True

    def _on_reap(self, *, watcher: Watcher, exit_code: int | None, **_: object) -> bool:
        if not watcher.is_stopping():
            self._note_death(self.lives[watcher.name], _describe(exit_code))
        return True

    def _note_death(self, life: Life, how: str) -> None:
        delay = life.restarts.died(ran_seconds=life.ran_seconds, was_ready=life.is_ready)
        life.is_ready = False
        life.restart_at = time.monotonic() + delay
        if not life.restarts.failed_for_good:
            self._output.say(
                f"{life.part.name} {how} after {life.ran_seconds:.0f} s; starting it again in {delay:g} s"
            )

    def _obituary(self, life: Life) -> str:
        lines = "\n".join(f"  {line}" for line in self._output.last_lines(life.part.name))
        runs = life.restarts.useless_runs
        return f"{life.part.name} ended {runs} times before it was ready; giving up. Its last lines:\n{lines}"

    async def stop(self) -> None:
        """Stop all parts, stage by stage; each is gone before the next is told. Nothing is left after it."""
        for stage in Stage:
            here = [life.watcher for life in self.lives.values() if life.part.stage is stage]
            await self._arbiter.stop_watchers(watcher_iter_func=lambda reverse=True, w=here: w)  # noqa: ARG005
        await self._arbiter.stop()
        await asyncio.sleep(0)  # the arbiter closes its sockets in a callback
        self._context.destroy(linger=0)

    def hurry(self) -> None:
        """Tell those that are stopping again, and kill what then takes longer than `HURRY_SECONDS`.

        The order stays: workers told twice still hand their jobs back, for which Valkey must be there.
        """
        for life in self.lives.values():
            life.watcher.graceful_timeout = HURRY_SECONDS
        watchers = [life.watcher for life in self.lives.values() if life.watcher.is_stopping()]
        stopping = [process for watcher in watchers for process in watcher.processes.values()]
        _signal_all(stopping, signal.SIGTERM)
        asyncio.get_running_loop().call_later(HURRY_SECONDS, _signal_all, stopping, signal.SIGKILL)


def _signal_all(processes: Iterable[Process], signum: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signum)


def _read_available(pipe: IO[bytes]) -> bytes:
    """Everything in the pipe now; its other end may live on in a grandchild, so EOF is not waited for."""
    os.set_blocking(pipe.fileno(), False)
    data = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(pipe.fileno(), 65536):
            data += chunk
    return data


def _describe(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended"
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with status {exit_code}"
