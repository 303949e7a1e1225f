"""One stack from start to stop."""

import asyncio
import dataclasses
import fcntl
import logging
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from project.stack import address, credentials, parts, readiness, summary, valkey
from project.stack import config as stack_config
from project.stack.config import Options, StackConfig, StackError
from project.stack.output import Output
from project.stack.readiness import Readiness
from project.stack.supervisor import Supervisor

IDLE_POLL_SECONDS: Final = 1.0
STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def run(options: Options) -> None:
    """Run the stack until it is told to stop. Raises StackError if it can't start or a part fails for good."""
    for chatty in ("circus", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    os.umask(0o077)  # prompts, answers and logins are the owner's only, in whatever file a part puts them
    _make_folders(options)
    with _alone(options):
        _forget_ready_file(options)
        config = stack_config.build(options, credentials.load(options.state_dir))
        env = stack_config.environment(config)
        prepare(env)
        prepared = dataclasses.replace(config, credentials=credentials.load(options.state_dir))
        address.write(options.state_dir, config.redis_url)
        try:
            asyncio.run(_run(prepared, env))
        finally:
            address.forget(options.state_dir)
            _forget_ready_file(options)


def _make_folders(options: Options) -> None:
    """Raise StackError for a folder that cannot be made or written: better now than when all parts run."""
    folders = {"--state": options.state_dir}
    if options.ready_file is not None:
        folders["--ready-file"] = options.ready_file.parent
    for option, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise StackError(f"{option}: nothing can be written in {folder}: {error.strerror or error}") from error


@contextmanager
def _alone(options: Options) -> Iterator[None]:
    """Hold the state folder: two stacks on one database and one Valkey folder would ruin both."""
    with (options.state_dir / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StackError(
                f"another stack runs in {options.state_dir}: stop it, or choose another folder with --state"
            ) from None
        yield


def _forget_ready_file(options: Options) -> None:
    if options.ready_file is not None:
        options.ready_file.unlink(missing_ok=True)


def prepare(env: dict[str, str]) -> None:
    """Migrate and make the logins, in a process with the stack's settings. Raises StackError with its output."""
    command = parts.leashed(parts.manage("prepare_stack"))
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        raise StackError(f"the database could not be prepared:\n{done.stdout}{done.stderr}".strip())


async def _run(config: StackConfig, env: dict[str, str]) -> None:
    with _signals_held():
        stack = _Stack(config, env)  # made here: circus ties itself to the loop that runs
        stack.catch_signals()
    await stack.run()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Deliver signals at the end: circus takes them when it is made, and drops those that come before it runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Stack:
    """The running stack: its parts, and the tasks around them."""

    def __init__(self, config: StackConfig, env: dict[str, str]) -> None:
        self._config = config
        all_parts = parts.build(config)
        self._output = Output([part.name for part in all_parts])
        self._supervisor = Supervisor(all_parts, env=env, output=self._output)
        self._readiness = Readiness(config, self._supervisor)
        self._stop = asyncio.Event()
        self._written: dict[str, Any] = {}
        """What the ready file says."""

    async def run(self) -> None:
        """Run until stopped; `catch_signals` first."""
        await self._supervisor.open()
        try:
            await self._until_stopped()
        finally:
            self._output.say("stopping: web, then workers, then the rest (again to hurry)")
            await self._supervisor.stop()
            await self._readiness.close()
            self._output.say("stopped")

    def catch_signals(self) -> None:
        """Have them stop the stack."""
        loop = asyncio.get_running_loop()
        for signum in STOPPING:
            loop.add_signal_handler(signum, self._on_signal)

    def _on_signal(self) -> None:
        if self._stop.is_set():
            self._supervisor.hurry()
        self._stop.set()

    async def _until_stopped(self) -> None:
        """Return when told to stop. Raises what a task around the parts raised."""
        tasks = [asyncio.create_task(coro) for coro in (self._stop.wait(), self._tend(), self._announce())]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        for task in done:
            task.result()

    async def _tend(self) -> None:
        await self._supervisor.tend()

    async def _announce(self) -> None:
        """Start the parts, say what is waited for, and tell the user and the ready file when all are ready."""
        await self._start_parts()
        await self._wait_until_ready()
        self._output.announce(summary.text(self._config, await self._readiness.model()))
        self._write_ready_file()
        while True:  # what was restarted gets its "ready" again
            await asyncio.sleep(IDLE_POLL_SECONDS)
            if await self._readiness.missing():
                await self._wait_until_ready()
                self._output.say("all parts are ready again")
            self._write_ready_file()  # in any case: a part may be back before anybody missed it

    def _write_ready_file(self) -> None:
        path, document = self._config.options.ready_file, summary.document(self._config, self._supervisor)
        # A part that has just died has no process: its successor will be named.
        is_whole = set(document["pids"]) == set(self._supervisor.lives)
        if path is not None and is_whole and document != self._written:
            summary.write(path, document)
            self._written = document

    async def _start_parts(self) -> None:
        """Valkey first, if it is ours."""
        names = list(self._supervisor.lives)
        if self._config.valkey_port is not None:
            valkey.write_config(self._config)
            await self._supervisor.start(names.pop(0))
        await self._readiness.valkey_answers(self._output.say)
        for name in names:
            await self._supervisor.start(name)

    async def _wait_until_ready(self) -> None:
        said, said_at = "", 0.0
        while missing := await self._readiness.missing():
            changed = str(missing) != said
            if changed or time.monotonic() - said_at >= readiness.SAY_AGAIN_SECONDS:
                said, said_at = str(missing), time.monotonic()
                self._output.say(readiness.sentence(missing, self._supervisor))
            if self._written:  # some part may not come back: what did is named all the same
                self._write_ready_file()
            await asyncio.sleep(readiness.POLL_SECONDS)
