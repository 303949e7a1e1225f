"""The table of faults: what can go wrong, with what, and how it is done and undone."""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

import psutil
import redis

from tests.acceptance.faults import clocks, disks
from tests.acceptance.faults.places import Place
from tests.acceptance.faults.plan import Fault
from tests.waiting import until

DATABASE: Final = "database"
VALKEY: Final = "valkey"
PROCESSES: Final = ("worker-1", "worker-2", "engine-1", "engine-2", "web", "control", "beat", VALKEY, DATABASE)
CLOCKS: Final = ("worker-1", "worker-2", "web", "control", "beat", VALKEY)
DIE_SECONDS: Final = 20.0
OFF_SECONDS: Final = 60
"""A clock that is off by less shows the time."""

Happening = Callable[[Place, str], AbstractContextManager[None]]
"""Begins a fault, and ends it: with a part that dies, the stack itself does that."""


class Kind(NamedTuple):
    """A row of the table."""

    targets: tuple[str, ...]
    happen: Happening
    outlasts_the_load: bool = False
    """A clock that is wrong does not mend itself: all must come to an end under it."""


@contextlib.contextmanager
def killed(place: Place, target: str) -> Iterator[None]:
    """`kill -9`."""
    victims = place.processes(target)
    _send(victims[:1], signal.SIGKILL)
    yield
    _start_again(place, target, victims)


@contextlib.contextmanager
def stopped(place: Place, target: str) -> Iterator[None]:
    """SIGSTOP, and SIGCONT after a while."""
    victims = place.processes(target)
    _send(victims, signal.SIGSTOP)
    yield
    _send(victims, signal.SIGCONT)


@contextlib.contextmanager
def stopped_for_good(place: Place, target: str) -> Iterator[None]:
    """SIGSTOP, and `kill -9` after a while."""
    victims = place.processes(target)
    _send(victims, signal.SIGSTOP)
    yield
    _send(victims, signal.SIGKILL)
    _start_again(place, target, victims)


def _send(victims: list[psutil.Process], signum: int) -> None:
    for victim in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.send_signal(signum)


def _start_again(place: Place, target: str, victims: list[psutil.Process]) -> None:
    """Start the database server, which is nobody else's; a new one refuses while processes of the old one live."""
    if target == DATABASE and place.server:
        place.server.stop()
        psutil.wait_procs(victims, timeout=DIE_SECONDS)
        place.server.start()


@contextlib.contextmanager
def cut_off(place: Place, target: str) -> Iterator[None]:
    """Close every connection of its clients, in whatever state they are."""
    if target == DATABASE and place.server:
        place.server.cut_connections()
    else:
        with _valkey(place) as client:
            for kind in ("pubsub", "normal"):
                client.client_kill_filter(_type=kind, skipme=True)
    yield


@contextlib.contextmanager
def flushed(place: Place, target: str) -> Iterator[None]:
    """Have it forget everything, on open connections."""
    with _valkey(place) as client:
        client.flushall()
    yield


@contextlib.contextmanager
def wiped(place: Place, target: str) -> Iterator[None]:
    """Kill it and take its data: it comes back empty."""
    pid = place.stack.pid(target)
    os.kill(pid, signal.SIGSTOP)
    shutil.rmtree(place.stack.folder / "state" / "valkey" / "appendonlydir")
    os.kill(pid, signal.SIGKILL)
    yield


@contextlib.contextmanager
def full(place: Place, target: str) -> Iterator[None]:
    """Leave it no byte on its disk. A server that gave up is started again, as somebody would."""
    disks.fill(place.disk)
    yield
    disks.relieve(place.disk)
    if place.server and not place.server.is_running:
        place.server.start()


def _jump(offset: str) -> Happening:
    @contextlib.contextmanager
    def jump(place: Place, target: str) -> Iterator[None]:
        clocks.set_clock(place.clocks, target, offset)
        yield
        clocks.set_clock(place.clocks, target, clocks.RIGHT)
        if target == VALKEY:  # the next round is one of its own: its jobs come by a clock that shows the time
            until(lambda: _is_right(place), seconds=DIE_SECONDS, what="Valkey's clock shows the time")

    return jump


def _is_right(place: Place) -> bool:
    with _valkey(place) as client:
        shown: Any = client.time()
        return bool(abs(time.time() - shown[0]) < OFF_SECONDS)


def _valkey(place: Place) -> redis.Redis:
    return redis.Redis.from_url(place.stack.access["redis_url"])


KINDS: Final[dict[str, Kind]] = {
    "killed": Kind(PROCESSES, killed),
    "stopped": Kind(PROCESSES, stopped),
    "stopped for good": Kind(PROCESSES, stopped_for_good),
    "cut off": Kind((VALKEY, DATABASE), cut_off),
    "flushed": Kind((VALKEY,), flushed),
    "wiped": Kind((VALKEY,), wiped),
    "full": Kind((DATABASE,), full),
    "an hour fast": Kind(CLOCKS, _jump("+1h"), outlasts_the_load=True),
    "an hour slow": Kind(CLOCKS, _jump("-1h"), outlasts_the_load=True),
}


def faults(*, has_server: bool, has_disk: bool, has_clocks: bool) -> list[Fault]:
    """All that can be done here: SQLite is no process; without root no disk gets full, without libfaketime
    no clock jumps.
    """
    return [
        Fault(name, target)
        for name, kind in KINDS.items()
        for target in kind.targets
        if (target != DATABASE or has_server or name == "full")
        and (name != "full" or has_disk)
        and (has_clocks or not kind.outlasts_the_load)
    ]
