"""The demo's own stack: `manage.py up` as a child process, on a free port and in a folder of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LEASH: Final = ROOT / "project" / "stack" / "leash.py"
STOP_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.2
OWN_LINES: Final = "up "
"""How lines of `up` itself begin; those of its parts begin with their names."""


class StackFailed(Exception):
    """The stack did not come up."""


@dataclass(frozen=True, slots=True)
class Access:
    """What the ready file says, as far as the demo needs it."""

    base_url: str
    api_key: str
    flower_url: str
    flower_user: str
    flower_password: str


@contextmanager
def running(state_dir: Path, *, engine: str, console: Console) -> Iterator[Access]:
    """Run the stack for the length of a `with`. Raises StackFailed with the end of its log."""
    _make(state_dir)
    log, ready_file = state_dir / "up.log", state_dir / "ready.json"
    ready_file.unlink(missing_ok=True)  # one of a stack that was killed would be taken for this one's
    _prepare(state_dir)
    with log.open("wb") as out:
        command = _command(state_dir, ready_file, engine)
        # A session of its own: Ctrl-C reaches the demo only, which then stops the stack once.
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=out, start_new_session=True)  # noqa: S603
    try:
        yield _wait(process, log, ready_file, console)
    finally:
        console.print("Stopping the stack …")
        _stop(process)


def _make(state_dir: Path) -> None:
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StackFailed(f"the folder {state_dir} cannot be made: {error.strerror}") from error


def _prepare(state_dir: Path) -> None:
    """Give the demo's database few slots, so that there is something to queue for on a small machine."""
    command = [sys.executable, "-m", "examples.demo.few_slots"]
    env = {**os.environ, "SLUICE_STATE_DIR": str(state_dir)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise StackFailed(done.stderr)


def _command(state_dir: Path, ready_file: Path, engine: str) -> list[str]:
    leash = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid())]
    up = [sys.executable, "manage.py", "up", "--engine", engine, "--port", str(_free_port())]
    return [*leash, *up, "--state", str(state_dir), "--ready-file", str(ready_file)]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], log: Path, ready_file: Path, console: Console) -> Access:
    """Pass on what `up` says until it is ready."""
    with log.open(errors="replace") as lines:
        while not ready_file.exists():
            _tell(lines.readlines(), console)
            if process.poll() is not None:
                raise StackFailed("\n".join(log.read_text(errors="replace").splitlines()[-30:]))
            time.sleep(POLL_SECONDS)
    facts = json.loads(ready_file.read_text())
    return Access(**{name: facts[name] for name in Access.__slots__})


def _tell(lines: list[str], console: Console) -> None:
    for line in lines:
        if line.startswith(OWN_LINES):
            console.print(line.partition("| ")[2].rstrip(), style="dim", highlight=False)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM stops all parts in order; a stack that does not end is killed, and the kernel kills its parts."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
