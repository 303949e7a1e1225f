"""Folders, processes and servers that live as long as a measurement, on a real disk."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import redis

from project.stack import parts, ports, valkey

T = TypeVar("T")

ROOT: Final = Path(__file__).resolve().parent.parent
STOP_SECONDS: Final = 60.0
OURS: Final = ("REDIS_URL", "SLUICE_", "DJANGO_", "FLOWER_")
"""What of the caller's environment would change what is measured. `DATABASE_URL` is the caller's choice."""


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Return a folder beside the product's state: the system's own may lie in memory, where a commit is free."""
    parent = ROOT / ".sluice"
    parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent, ignore_cleanup_errors=True) as name:
        yield Path(name)


def environment(**more: str) -> dict[str, str]:
    """Return the caller's environment without what would change what is measured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, "PYTHONWARNINGS": "ignore", **more}


@contextlib.contextmanager
def process(*arguments: str, env: Mapping[str, str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run this Python with the arguments until the end of the `with`: SIGTERM, then SIGKILL."""
    with log.open("ab") as output:
        # Leashed: it does not outlive a suite that is killed.
        command = parts.leashed((sys.executable, *arguments))
        started = subprocess.Popen(command, cwd=ROOT, env=dict(env), stdout=output, stderr=output)  # noqa: S603
    try:
        yield started
    finally:
        _end(started)


def output(module: str, *arguments: str, env: Mapping[str, str]) -> str:
    """Run a module of ours to its end and return what it printed. Raises RuntimeError with its errors."""
    command = (sys.executable, "-m", module, *arguments)
    done = subprocess.run(command, cwd=ROOT, env=dict(env), capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"{module} failed: {done.stderr[-2000:]}")
    return done.stdout


def until(fact: Callable[[], T], *, seconds: float, what: str, poll_seconds: float = 0.01) -> T:
    """Ask until the answer is true, and return it. Raises TimeoutError."""
    ends_at = time.monotonic() + seconds
    while not (answer := fact()):
        if time.monotonic() > ends_at:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(poll_seconds)
    return answer


@contextlib.contextmanager
def redis_server(where: Path) -> Iterator[str]:
    """Return the URL of a Valkey set up as the embedded stack's: on disk every second."""
    port = ports.any_free("127.0.0.1")
    options = f"--port {port} --bind 127.0.0.1 --appendonly yes --appendfsync everysec --loglevel warning".split()
    command = [str(valkey.binary()), *options, "--save", "", "--dir", str(where)]
    with (where / "valkey.log").open("ab") as output:
        started = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
    url = f"redis://127.0.0.1:{port}/0"
    try:
        until(lambda: not valkey.silence(url), seconds=10, what="Valkey answers")
        yield url
    finally:
        _end(started)


@contextlib.contextmanager
def redis_client(url: str) -> Iterator[redis.Redis]:
    """Return a plain client."""
    client = redis.Redis.from_url(url)
    try:
        yield client
    finally:
        client.close()


def _end(started: "subprocess.Popen[bytes]") -> None:
    if started.poll() is None:
        started.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(STOP_SECONDS)
    if started.poll() is None:
        started.kill()
    started.wait()
