"""Whatever ends an engine or its worker, nothing of the engine stays: real processes, really killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import engines as builders
from workers import process_tree

pytestmark = pytest.mark.once
ROOT = Path(__file__).resolve().parent.parent.parent

ENGINE = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)  # " + sys.argv[1]]
subprocess.Popen(sleep)
subprocess.Popen(sleep, process_group=0)
subprocess.Popen(sleep, start_new_session=True)
if os.fork() == 0:                      # an orphan in a session of its own: a daemon
    os.setsid()
    subprocess.Popen(sleep)
    os._exit(0)
os.wait()
print("up", flush=True)
time.sleep(600)
"""
"""An engine with children in its group, in another group, in another session, and one whose parent has gone."""

WORKER = """
import subprocess, sys
shim = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True)
shim.wait()
"""


def _shim(*command: str) -> list[str]:
    return [sys.executable, "-m", "workers.shim", *command]


@contextlib.contextmanager
def _running(command: list[str], marker: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[int, str]]]:
    """Run `command` until the engine below it is up; yields it with the whole family, itself left out."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == b"up\n"
            family = builders.processes_of(marker)
            family.pop(process.pid)
            yield process, family
        finally:
            process.kill()


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed shim cannot remove its folder
    marker = str(tmp_path)
    yield marker
    for pid in builders.processes_of(marker):  # of a test that failed
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def engine(marker: str) -> list[str]:
    return _shim(sys.executable, "-c", ENGINE, marker)


async def test_all_end_when_the_worker_lets_go(engine: list[str], marker: str) -> None:
    with _running(engine, marker) as (shim, family):
        assert len(family) == 5
        assert shim.stdin
        shim.stdin.close()

        shim.wait(timeout=builders.DEADLINE_SECONDS)
        assert not builders.processes_of(marker), "when the shim is gone, so is everything"


async def test_all_end_when_the_worker_is_killed(engine: list[str], marker: str) -> None:
    with _running([sys.executable, "-c", WORKER, *engine], marker) as (worker, family):
        assert len(family) == 6  # the shim too
        worker.kill()

        await builders.until_gone(*family)


async def test_all_end_when_the_engines_first_process_is_killed(engine: list[str], marker: str) -> None:
    with _running(engine, marker) as (shim, family):
        first = next(pid for pid, command in family.items() if "an orphan" in command)
        os.kill(first, signal.SIGKILL)

        assert shim.wait(timeout=builders.DEADLINE_SECONDS) == 128 + signal.SIGKILL
        assert not builders.processes_of(marker)


async def test_all_end_on_sigterm(engine: list[str], marker: str) -> None:
    with _running(engine, marker) as (shim, _):
        shim.terminate()

        shim.wait(timeout=builders.DEADLINE_SECONDS)
        assert not builders.processes_of(marker)


async def test_what_ignores_sigterm_ends_too(marker: str) -> None:
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    with _running(_shim(sys.executable, "-c", f"{stubborn}  # {marker}"), marker) as (shim, family):
        assert shim.stdin
        shim.stdin.close()

        shim.wait(timeout=builders.DEADLINE_SECONDS)
        await builders.until_gone(*family)


async def test_the_session_of_a_killed_shim_can_still_be_cleared(engine: list[str], marker: str) -> None:
    command = [sys.executable, "-c", WORKER, *engine]
    with _running(command, marker) as (_, family):
        shim = next(pid for pid, line in family.items() if "workers.shim" in line and WORKER not in line)
        session = [process.pid for process in process_tree.processes() if process.session == shim]
        os.kill(shim, signal.SIGKILL)
        await builders.until_gone(shim)

        while process_tree.kill(shim):
            pass

        await builders.until_gone(*session)


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(0)", 0), ("raise SystemExit(3)", 3)])
def test_the_status_is_the_engines(code: str, status: int) -> None:
    with subprocess.Popen(_shim(sys.executable, "-c", code), stdin=subprocess.PIPE, cwd=ROOT) as shim:
        assert shim.wait(timeout=builders.DEADLINE_SECONDS) == status


def test_the_engine_holds_no_end_of_the_pipe_and_its_temporary_files_are_removed() -> None:
    code = "import os, tempfile; print(tempfile.mkdtemp(), os.path.realpath('/proc/self/fd/0'), flush=True)"
    with subprocess.Popen(
        _shim(sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as shim:
        assert shim.stdout
        folder, stdin = shim.stdout.readline().decode().split()
        shim.wait(timeout=builders.DEADLINE_SECONDS)

    assert stdin == os.devnull
    assert not Path(folder).exists()
