"""The acceptance suite sees a traceback in a stack's log, once, also of a stack that has ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance import stacks

pytestmark = pytest.mark.once

TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\nValueError: it\n'


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> stacks.Stack:
    """One whose log is ready, and which is all that runs."""
    for name, value in (("_running", []), ("_logs", {}), ("_looked_at", {})):
        monkeypatch.setattr(stacks, name, value)
    (tmp_path / "up.log").write_text("web | started\n")
    (tmp_path / "ready.json").write_text("{}")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    return stacks.wait_ready(process, "mark", tmp_path)


def test_a_traceback_is_found_once_with_what_came_before_it(stack: stacks.Stack) -> None:
    assert stacks.new_tracebacks() == []
    log = stack.folder / "up.log"
    log.write_text(log.read_text() + "web | it broke\n" + TRACEBACK)
    [found] = stacks.new_tracebacks()
    assert found.startswith("web | it broke\n")
    assert stacks.new_tracebacks() == []
    stacks.clean_up(stack.process, "mark")


def test_what_a_stack_says_at_its_end_is_looked_at_although_its_folder_is_gone(stack: stacks.Stack) -> None:
    log = stack.folder / "up.log"
    log.write_text(TRACEBACK)
    stacks.clean_up(stack.process, "mark")
    log.unlink()
    assert len(stacks.new_tracebacks()) == 1
