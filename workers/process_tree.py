"""Find and kill what an engine left behind. Linux only, and stdlib only: the shim must stay light."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    session: int


def processes() -> list[Process]:
    """Every process that still runs; a zombie is gone for our purposes."""
    found = (_read(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [process for process in found if process]


def _read(entry: Path) -> Process | None:
    try:
        stat = (entry / "stat").read_text(errors="replace")
    except OSError:  # it went between the listing and the look
        return None
    # The name is in parentheses and may hold anything, parentheses too: count from the last one.
    state, parent, _group, session = stat.rpartition(")")[2].split()[:4]
    return None if state in "ZX" else Process(int(entry.name), int(parent), int(session))


def members(session: int) -> set[int]:
    """Whatever belongs to the engine whose shim leads `session`, without that shim.

    That is its session, and all that descends from the shim, also in sessions of their own: the shim is a
    subreaper, so that descendants whose parents died stay below it.
    """
    table = [process for process in processes() if process.pid != session]
    found = {process.pid for process in table if session in (process.session, process.parent)}
    while grown := {process.pid for process in table if process.parent in found} - found:
        found |= grown
    return found


def kill(session: int) -> bool:
    """Send SIGKILL to all members of `session`; True if there were any."""
    victims = members(session)
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(victims)
