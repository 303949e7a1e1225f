"""Stacks run as a user runs them: `manage.py up` as a process, on free ports and in a folder of its own."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from django.conf import settings

from project.stack import ports
from tests import databases
from tests.waiting import until

MARK: Final = "SLUICE_TEST_MARK"
"""An environment variable that all processes of a stack inherit: what carries it is the stack's."""
READY_SECONDS: Final = 90.0
STOP_SECONDS: Final = 60.0
MANAGE: Final = ("manage.py",)
TRACEBACK: Final = "Traceback (most recent call last)"
SHOWN_LINES: Final = 40
NO_ENV: Final[Mapping[str, str]] = {}
FAST: Final = {"SLUICE_LEASE_SECONDS": "2", "SLUICE_RECONCILE_SECONDS": "1", "SLUICE_DRAIN_SECONDS": "20"}


@dataclass(frozen=True)
class Stack:
    """A running stack."""

    process: subprocess.Popen[bytes]
    mark: str
    folder: Path
    access: dict[str, Any]
    """What the ready file says."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What it was started with beyond the usual."""

    @property
    def base_url(self) -> str:
        return str(self.access["base_url"])

    @property
    def api_key(self) -> str:
        return str(self.access["api_key"])

    @property
    def ready_file(self) -> Path:
        return self.folder / "ready.json"

    @property
    def flower_login(self) -> tuple[str, str]:
        return self.access["flower_user"], self.access["flower_password"]

    def client(self, **options: Any) -> httpx.Client:
        """An HTTP client with the API key."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        plain: dict[str, Any] = {"verify": False, "trust_env": False}  # to load certificates takes 80 ms
        return httpx.Client(base_url=self.base_url, headers=headers, timeout=60, **plain, **options)

    def flower(self) -> httpx.Client:
        """An HTTP client with Flower's login."""
        return httpx.Client(
            base_url=self.access["flower_url"], auth=self.flower_login, timeout=30, trust_env=False
        )

    def environment(self) -> dict[str, str]:
        """The environment of one more process of this stack."""
        ours = {
            "SLUICE_STATE_DIR": self.access["state_dir"],
            "REDIS_URL": self.access["redis_url"],
            MARK: self.mark,
            **databases.of_stack(self.folder),
            **self.env,
        }
        return {**_clean_environment(), **FAST, **ours}

    def manage(self, *arguments: str) -> str:
        """What a command of `manage.py` says; the stack may have stopped."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(
            command, cwd=settings.BASE_DIR, env=self.environment(), capture_output=True, text=True, check=True
        )
        return done.stdout

    def log(self) -> str:
        """All that the stack said so far."""
        return (self.folder / "up.log").read_text(errors="replace")

    def processes(self) -> list[psutil.Process]:
        """`up` and all below it, engines included."""
        try:
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def pid(self, part: str) -> int:
        """The part's process, as the ready file has it; it is written anew after a restart."""
        return int(json.loads(self.ready_file.read_text())["pids"][part])

    def stop(self) -> int:
        """Ask the stack to stop, as Ctrl-C does, and wait; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)


_running: list[Stack] = []
_logs: dict[str, str] = {}
"""What stacks that ended said, and those that run, until it is looked at; by mark."""
_looked_at: dict[str, int] = {}
"""How much of each log has been looked at, by mark."""


def new_tracebacks() -> list[str]:
    """The tracebacks in the logs of all stacks since the last look, each with the line before it."""
    _keep_logs({stack.mark for stack in _running if stack.folder.exists()})
    said = [log[_looked_at.get(mark, 0) :] for mark, log in _logs.items()]
    _looked_at.update({mark: len(log) for mark, log in _logs.items()})
    _logs.clear()
    return [found for text in said for found in _tracebacks(text)]


def _keep_logs(marks: set[str]) -> None:
    _logs.update({stack.mark: stack.log() for stack in _running if stack.mark in marks})


def _tracebacks(text: str) -> list[str]:
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if TRACEBACK in line]
    return ["\n".join(lines[max(0, start - 1) : start + SHOWN_LINES]) for start in starts]


def alive(found: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run."""
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def marked(mark: str) -> list[psutil.Process]:
    """All living processes that show that they inherited `mark`; those that set a title of theirs may not."""
    return [p for p in psutil.process_iter() if _inherited(p, MARK) == mark]


def _inherited(process: psutil.Process, variable: str) -> str | None:
    """The variable as the process got it; None without it, and for zombies, which have no environment."""
    with contextlib.suppress(psutil.Error):
        return process.environ().get(variable)
    return None


def launch(
    folder: Path,
    *arguments: str,
    port: int | None = None,
    env: Mapping[str, str] = NO_ENV,
    program: Sequence[str] = MANAGE,
) -> tuple[subprocess.Popen[bytes], str]:
    """Start `manage.py up`; returns it with its mark. Its output goes to `up.log` in the folder."""
    mark = secrets.token_hex(8)
    chosen = str(port or ports.any_free("127.0.0.1"))
    command = [
        sys.executable,
        *program,
        "up",
        "--engine",
        "sim",
        "--port",
        chosen,
        "--state",
        str(folder / "state"),
    ]
    command += ["--ready-file", str(folder / "ready.json"), *arguments]
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=settings.BASE_DIR,
            env={**_clean_environment(), **FAST, **databases.of_stack(folder), **env, MARK: mark},
            stdout=log,
            stderr=log,
        )
    return process, mark


def _clean_environment() -> dict[str, str]:
    """The tests' environment without what would tie the stack to something else."""
    ours = ("REDIS_URL", "DATABASE_URL", "SLUICE_", "DJANGO_", "FLOWER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def wait_ready(
    process: subprocess.Popen[bytes], mark: str, folder: Path, *, seconds: float = READY_SECONDS
) -> Stack:
    """Wait for the ready file."""
    ready_file = folder / "ready.json"

    def ready() -> bool:
        assert process.poll() is None, (folder / "up.log").read_text(errors="replace")[-4000:]
        return ready_file.exists()

    try:
        until(ready, seconds=seconds, what="the stack is ready")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{(folder / 'up.log').read_text(errors='replace')[-4000:]}") from None
    _running.append(stack := Stack(process, mark, folder, json.loads(ready_file.read_text())))
    return stack


@contextlib.contextmanager
def running(*arguments: str, env: Mapping[str, str] = NO_ENV, program: Sequence[str] = MANAGE) -> Iterator[Stack]:
    """A stack for the length of a `with`; nothing of it is left behind, whatever happens in it."""
    # Not pytest's folder: its path may be too long for a Unix socket below it.
    with tempfile.TemporaryDirectory(prefix="stack-") as name:
        process, mark = launch(Path(name), *arguments, env=env, program=program)
        try:
            yield replace(wait_ready(process, mark, Path(name)), env=env)
        finally:
            clean_up(process, mark)
            databases.drop_of_stack(Path(name))


def clean_up(process: subprocess.Popen[bytes], mark: str) -> None:
    """Stop the stack, and kill what is left of it if it does not."""
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    for left in alive([*family, *marked(mark)]):
        with contextlib.suppress(psutil.Error):
            left.kill()
    process.wait()
    _keep_logs({mark})
    _running[:] = [stack for stack in _running if stack.mark != mark]
