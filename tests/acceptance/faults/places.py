"""What a fault is done to: one stack, with a disk and a database server of its own."""

import contextlib
import tempfile
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from tests import databases, postgresql
from tests.acceptance import fleet, stacks
from tests.acceptance.faults import clocks, disks
from tests.acceptance.stacks import Stack

SLOW: Final = {"SLUICE_SIM_ARGS": fleet.SLOW}
"""A job of 40 tokens takes 2 s, as long as a lease."""
CRASH_SAFE: Final = {"synchronous_commit": "on", "full_page_writes": "on", "max_wal_size": "64MB"}
"""A server that is killed must not forget what it said was committed."""


@dataclass(frozen=True)
class Place:
    """A running stack and what it stands on."""

    stack: Stack
    disk: Path
    clocks: Path
    server: postgresql.Server | None
    """None on SQLite."""

    def processes(self, target: str) -> list[psutil.Process]:
        """All processes that go down with the target, the first one first."""
        if target == "database":
            assert self.server
            top = psutil.Process(self.server.pid)
            return [top, *top.children(recursive=True)]
        if target.startswith("engine"):
            [shim] = psutil.Process(self.stack.pid(target.replace("engine", "worker"))).children()
            return shim.children()[:1]
        return [psutil.Process(self.stack.pid(target))]

    def is_whole(self, *, unheard: Collection[str] = ()) -> bool:
        """Whether every part runs, and the workers but those `unheard` are ready."""
        return (self.server is None or self.server.is_running) and fleet.is_whole(self.stack, unheard=unheard)


@contextlib.contextmanager
def running() -> Iterator[Place]:
    """A place for the length of a `with`, on the database that the tests run on."""
    with contextlib.ExitStack() as all_of_it:
        disk = all_of_it.enter_context(disks.small())
        clock_folder = Path(all_of_it.enter_context(tempfile.TemporaryDirectory(prefix="clocks-")))
        all_of_it.callback(clocks.clean_up)
        server = None
        url = f"sqlite:///{disk / 'sluice.sqlite3'}"
        if databases.name() == databases.POSTGRESQL:
            server = all_of_it.enter_context(postgresql.running(disk, **CRASH_SAFE))
            server.run("CREATE DATABASE sluice")
            url = server.url("sluice")
        program = ("-m", "tests.acceptance.faults.clocks", str(clock_folder))
        options = {"program": program if clocks.library() else stacks.MANAGE}
        stack = all_of_it.enter_context(
            stacks.running("--workers", "2", env={**SLOW, databases.URL: url}, **options)
        )
        yield Place(stack, disk, clock_folder, server)


def let_pass(seconds: float) -> None:
    """Let a fault last. No fact says how long: that is the seed's."""
    threading.Event().wait(seconds)
