"""Web processes alone, with a Valkey of their own: for what is measured of submissions, without workers."""

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from django.conf import settings

from bench import places
from bench.load import Target
from project.stack import ports

READY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Web:
    """Web processes on one database and one Valkey."""

    urls: list[str]
    environment: Mapping[str, str]
    """Of a process that works on both."""

    def targets(self, key: str) -> list[Target]:
        """Return all of them for the holder of a key."""
        return [Target(url, key=key) for url in self.urls]

    def rows(self, *arguments: str) -> Any:
        """Do what `bench.rows` does with the database, and return what it printed."""
        return json.loads(places.output("bench.rows", *arguments, env=self.environment) or "null")

    def update(self, table: str, where: Mapping[str, Any], **fields: Any) -> None:
        """Set fields of rows; the processes see it within a second."""
        self.rows("update", table, json.dumps(where), json.dumps(fields))

    def forget(self) -> None:
        """Empty Valkey: room that it keeps for those who were refused is kept no more."""
        with places.redis_client(self.environment["REDIS_URL"]) as client:
            client.flushall()

    def key(self, tenant: str) -> str:
        """Make a tenant and return a key of it."""
        return str(self.rows("keys", json.dumps({tenant: 1}))[tenant])


@contextlib.contextmanager
def ours(processes: int) -> Iterator[Web]:
    """Run so many, as `manage.py up` runs one."""
    with places.folder() as where, places.redis_server(where) as redis_url:
        env = places.environment(
            DJANGO_SETTINGS_MODULE="project.settings",
            DJANGO_SECRET_KEY=secrets.token_hex(32),
            SLUICE_STATE_DIR=str(where),
            REDIS_URL=redis_url,
        )
        places.output("bench.rows", "migrate", env=env)
        with contextlib.ExitStack() as stack:
            urls = [stack.enter_context(_uvicorn(where, env)) for _ in range(processes)]
            yield Web(urls, env)


@contextlib.contextmanager
def bare(threads: int) -> Iterator[Target]:
    """Run the bare application (`bench.bare_app`) in one WSGI process of so many threads."""
    with places.folder() as where, places.redis_server(where) as redis_url:
        env = places.environment(BARE_DATABASE=json.dumps(_database(where)), STOCK_BROKER=redis_url)
        places.output("bench.bare_app", "tables", env=env)
        options = (
            "--workers",
            "1",
            "--worker-class",
            "gthread",
            "--threads",
            str(threads),
            "--log-level",
            "warning",
        )
        with _served(
            where, env, "gunicorn", "bench.bare_app:application", "--bind=127.0.0.1:{port}", *options
        ) as url:
            yield Target(url)


def _database(where: Path) -> dict[str, Any]:
    """Return the stack's database with its options, by Django's own backend."""
    config = dict(settings.DATABASES["default"])
    if config["ENGINE"] == "project.sqlite":
        return config | {"ENGINE": "django.db.backends.sqlite3", "NAME": str(where / "bare.sqlite3")}
    return config | {"ENGINE": "django.db.backends.postgresql"}


@contextlib.contextmanager
def _uvicorn(where: Path, env: Mapping[str, str]) -> Iterator[str]:
    options = ("--loop", "uvloop", "--http", "httptools", "--lifespan", "on", "--log-level", "warning")
    command = ("uvicorn", "project.asgi:application", *options, "--no-access-log", "--no-server-header")
    with _served(where, env, *command, "--port={port}") as url:
        yield url


@contextlib.contextmanager
def _served(where: Path, env: Mapping[str, str], *command: str) -> Iterator[str]:
    port = ports.any_free("127.0.0.1")
    log = where / f"web-{port}.log"
    with places.process("-m", *(part.format(port=port) for part in command), env=env, log=log) as started:
        url = f"http://127.0.0.1:{port}"
        places.until(
            lambda: started.poll() is not None or _answers(url), seconds=READY_SECONDS, what="web answers"
        )
        if started.poll() is not None:
            raise RuntimeError(f"the web process ended: {log.read_text(errors='replace')[-2000:]}")
        yield url


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url, trust_env=False).status_code > 0
    return False
