"""`--database`: what the tests run on. A plugin loaded with `-p`, so before Django reads its settings."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg
import pytest

from tests import postgresql

SQLITE: Final = "sqlite"
POSTGRESQL: Final = "postgresql"
URL: Final = "DATABASE_URL"
"""Inherited by all processes that tests start, unless they are given a database of their own."""
WITHOUT: Final = ("tests/unit/", "tests/integration/test_broker_")
"""Where tests have no database near, unless they ask for one: they are `once` without saying so."""
ENGINES: Final = "tests/engine/"
"""What takes longest of all that is run `once`."""

_missing: list[str] = []
_left_out: list[pytest.Item] = []
_servers: list[postgresql.Server] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--database", choices=[SQLITE, POSTGRESQL], default=SQLITE, help="what the tests run on")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    os.environ.pop(URL, None)
    if early_config.known_args_namespace.database != POSTGRESQL:
        return
    stack = contextlib.ExitStack()
    early_config.add_cleanup(stack.close)
    try:
        server = stack.enter_context(postgresql.running())
    except postgresql.NoServer as error:
        _missing.append(str(error))
        return
    stack.callback(_servers.clear)
    _servers.append(server)
    os.environ[URL] = server.url("sluice")


def pytest_sessionstart() -> None:
    """End here if the database is missing: well, but said; in continuous integration it is a failure."""
    if _missing:
        is_required = bool(os.environ.get("CI"))
        what = "FAILED" if is_required else "NOT TESTED"
        pytest.exit(f"{what} on PostgreSQL: {_missing[0]}", returncode=int(is_required))


@pytest.hookimpl(trylast=True)  # after -k and the like: what nobody asked for is not left out by us
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the other run can show, or shows as well."""
    for item in items:
        if _needs_none(item):
            item.add_marker("once")
    others = [item for item in items if _only_run(item) not in {None, config.option.database}]
    config.hook.pytest_deselected(items=others)
    _left_out.extend(others)
    items[:] = [item for item in items if item not in others]


def _only_run(item: pytest.Item) -> str | None:
    """Return the run that a test belongs to; None: both."""
    if item.get_closest_marker(POSTGRESQL):
        return POSTGRESQL
    if not item.get_closest_marker("once"):
        return None
    # In continuous integration there are always two, side by side, and PostgreSQL's is the shorter one.
    return POSTGRESQL if os.environ.get("CI") and item.nodeid.startswith(ENGINES) else SQLITE


def _needs_none(item: pytest.Item) -> bool:
    asks = {"django_db_setup", "postgresql_server"}.intersection(getattr(item, "fixturenames", ()))
    is_marked = any(item.get_closest_marker(mark) for mark in ("django_db", POSTGRESQL))
    return item.nodeid.startswith(WITHOUT) and not asks and not is_marked


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Be content with a run to which none of the tests asked for belongs: `make test ARGS=…` makes two."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and _left_out:
        session.exitstatus = pytest.ExitCode.OK


def pytest_report_header(config: pytest.Config) -> str:
    return f"database: {config.option.database}"


def name() -> str:
    """Return what the tests run on, as `--database` takes it."""
    return POSTGRESQL if _servers else SQLITE


def url_of(name: str) -> str:
    """The `DATABASE_URL` of the database, or SQLite's file, of that name."""
    return _servers[0].url(name) if _servers else f"sqlite:///{name}"


@pytest.fixture
def postgresql_server() -> postgresql.Server:
    """The server that the tests run on."""
    return _servers[0]


def of_stack(folder: Path) -> dict[str, str]:
    """The environment that gives the stack in `folder` a database of its own; SQLite's is a file in there."""
    if not _servers:
        return {}
    name = _name_of(folder)
    with contextlib.suppress(psycopg.errors.DuplicateDatabase):  # it is started again, and finds its data
        _servers[0].run("CREATE DATABASE {}", name)
    return {URL: url_of(name)}


def drop_of_stack(folder: Path) -> None:
    """Remove the stack's database; SQLite's goes with the folder."""
    if _servers:
        _servers[0].run("DROP DATABASE IF EXISTS {} WITH (FORCE)", _name_of(folder))


def _name_of(folder: Path) -> str:
    return f"stack_{hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"


def restorer() -> Callable[[], None]:
    """Return what puts the seeded tables back: a copy of each is kept in a schema of its own."""
    from django.db import connection, transaction  # noqa: PLC0415 - the settings are not read yet at import

    tables = [t for t in connection.introspection.table_names() if t != "django_migrations"]
    copies = (f'CREATE TABLE seed."{t}" AS TABLE public."{t}"' for t in tables)
    backs = (f'DELETE FROM public."{t}"; INSERT INTO public."{t}" TABLE seed."{t}"' for t in tables)
    # As a replica, the server checks no foreign key: the order does not matter.
    restore = "; ".join(["SET LOCAL session_replication_role = replica; SET LOCAL lock_timeout = '20s'", *backs])
    with connection.cursor() as cursor:
        cursor.execute("; ".join(["CREATE SCHEMA seed", *copies]))

    def put_back() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(restore)

    return put_back
