"""Holds an engine and leaves no orphan: `python -m workers.shim COMMAND…`, started as leader of a new session.

Its stdin is a pipe whose other end only the worker holds. When that closes (the worker stopped the engine, or died
in whatever way), on SIGTERM, or when the engine itself exits, all that the engine started is killed, and the shim
exits once nothing is left: whoever waits for the shim waits for the engine's last process. Its exit status is the
engine's, 128 + n if signal n ended it. It also gives the engine a folder for temporary files and removes it at the
end: vLLM leaves sockets in there when it is killed.

Killing at once is safe, as an engine has no state worth saving, and it works from every state it can be in.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Final

from workers import process_tree

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_libc = ctypes.CDLL(None, use_errno=True)


def main(command: Sequence[str]) -> int:
    """Run `command` until it exits or stdin closes; kill all it left; return its exit status."""
    with tempfile.TemporaryDirectory(prefix="sluice-engine-", ignore_cleanup_errors=True) as scratch:
        return _hold(command, {**os.environ, "TMPDIR": scratch})


def _hold(command: Sequence[str], env: Mapping[str, str]) -> int:
    # Orphans of the engine become our children instead of init's: so they are found, and waited for.
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wakeups = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
    # The engine gets no end of the worker's pipe, and a process group of its own.
    engine = subprocess.Popen(  # noqa: S603 (the command is the worker's)
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=_die_with_the_shim,  # noqa: PLW1509 (the shim has no threads)
    )
    watch = _Watch(engine.pid, wakeups)
    watch.until_the_end()
    watch.until_nothing_is_left()
    return watch.status or 0


def _die_with_the_shim() -> None:
    """For a `kill -9` of the shim: the engine's first process goes with it (the worker kills the rest)."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _wake_on(*signals: signal.Signals) -> int:
    """Have each of `signals` write its number to a pipe; returns the pipe's end to read."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    os.set_blocking(reader, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda *_: None)  # not SIG_IGN: that would pass on to the engine
    return reader


class _Watch:
    """Waits for the first reason to end, then for the end of everything."""

    def __init__(self, engine: int, wakeups: int) -> None:
        self.status: int | None = None
        self._engine = engine
        self._wakeups = wakeups
        self._poll = select.poll()
        self._poll.register(wakeups, select.POLLIN)

    def until_the_end(self) -> None:
        """Return when the engine exited, the worker let go, or a signal said stop."""
        worker = sys.stdin.fileno()
        self._poll.register(worker, select.POLLIN)
        while self.status is None:
            ready = [fd for fd, _ in self._poll.poll()]
            if worker in ready and not os.read(worker, 4096):
                break
            if self._wakeups in ready and set(os.read(self._wakeups, 4096)) & {signal.SIGTERM, signal.SIGINT}:
                break
            self._reap()
        self._poll.unregister(worker)

    def until_nothing_is_left(self) -> None:
        """Kill again and again: what is killed may have children that only then become ours."""
        while process_tree.kill(os.getpid()) or self._reap():
            if self._poll.poll(20):  # milliseconds; a death wakes us earlier
                os.read(self._wakeups, 4096)

    def _reap(self) -> bool:
        """Collect the dead, the engine's status among them; True while children live."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._engine:
                code = os.waitstatus_to_exitcode(status)
                self.status = code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
