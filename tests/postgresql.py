"""A private PostgreSQL server for the tests, of whatever version this machine has."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, LiteralString

import psycopg
import psycopg.sql

from tests.waiting import until

USER: Final = "sluice"
START_SECONDS: Final = 30.0
SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "200",
    # Nothing here outlives the tests.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    # Where times were taken for local ones, a test would fail.
    "timezone": "Asia/Kolkata",
}


class NoServer(Exception):
    """PostgreSQL is not installed; the message says what to do."""


class Server:
    """A server, reached by a socket in its folder."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder = folder
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its first process, from which all others stem."""
        assert self._process
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether that one lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=self.folder, stdout=log, stderr=log)
        until(self._answers, seconds=START_SECONDS, what="PostgreSQL takes connections")

    def stop(self) -> None:
        """Stop it without a wait for its clients."""
        if self._process:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_SECONDS)
            self._process = None

    def url(self, database: str) -> str:
        """The `DATABASE_URL` of one of its databases."""
        return f"postgres://{USER}@{urllib.parse.quote(str(self.folder), safe='')}/{database}"

    def run(self, statement: LiteralString, *names: str) -> None:
        """Run one statement outside any transaction; each `{}` in it is the next of `names`."""
        query = psycopg.sql.SQL(statement).format(*map(psycopg.sql.Identifier, names))
        with psycopg.connect(host=str(self.folder), user=USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(query)

    def cut_connections(self) -> None:
        """End every session of a client, as a restart would."""
        self.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres'")

    def _answers(self) -> bool:
        assert self.is_running, (self.folder / "log").read_text(errors="replace")[-2000:]
        with contextlib.suppress(psycopg.OperationalError):
            self.run("SELECT 1")
            return True
        return False


@contextlib.contextmanager
def running(parent: Path | None = None, **settings: str) -> Iterator[Server]:
    """A server for the length of a `with`, its folder in `parent`; nothing of it is left. Raises NoServer."""
    binaries, owner = find(), _owner()
    with tempfile.TemporaryDirectory(prefix="pg-", dir=parent) as name:
        folder = Path(name)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        _create(binaries, folder, owner)
        server = Server(folder, _command(binaries, folder, owner, SETTINGS | settings))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def find() -> Path:
    """Where the server's programs are: on the path, or where Debian has them. Raises NoServer."""
    known = [Path(found).resolve().parent] if (found := shutil.which("initdb")) else []
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    for folder in [*known, *sorted(debian, key=lambda path: int(path.parent.name), reverse=True)]:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoServer("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")


def _owner() -> pwd.struct_passwd:
    """Who runs the server, which refuses to be root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid())
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres")
    return pwd.getpwnam("nobody")


def _create(binaries: Path, folder: Path, owner: pwd.struct_passwd) -> None:
    options = ("--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={USER}")
    command = [str(binaries / "initdb"), "-D", str(folder / "data"), *options]
    done = subprocess.run(_as(owner, command), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def _command(binaries: Path, folder: Path, owner: pwd.struct_passwd, settings: Mapping[str, str]) -> list[str]:
    options = [f"--{name}={value}" for name, value in settings.items()]
    return _as(owner, [str(binaries / "postgres"), "-D", str(folder / "data"), "-k", str(folder), *options])


def _as(owner: pwd.struct_passwd, command: list[str]) -> list[str]:
    """The command as that user, stopped should the tests be killed."""
    become = [] if os.getuid() else [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    return ["setpriv", "--pdeathsig=INT", *become, *command]
