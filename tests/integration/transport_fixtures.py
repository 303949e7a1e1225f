"""Connections of the transport to a broker of the test's own: a plugin of the tests that use them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import kombu
import pytest

from inference import broker as broker_module
from inference.broker import Broker
from tests.integration.transports import Connect
from workers import transport
from workers.held import HELD
from workers.settlement import SETTLER


@pytest.fixture
def ours(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """The broker that the transport finds."""
    monkeypatch.setattr(broker_module, "get_broker", lambda: broker)
    monkeypatch.setattr(SETTLER, "_connect", lambda: broker)
    yield broker
    for token in HELD.tokens():
        HELD.drop(token)


@pytest.fixture
def connect(ours: Broker, valkey: str) -> Iterator[Connect]:
    """Makes connections, and closes them in the end."""
    with contextlib.ExitStack() as opened:

        def make() -> Any:
            options = {"global_keyprefix": ours.prefix}
            made = kombu.Connection(valkey, transport=transport.Transport, transport_options=options)
            return opened.enter_context(made)

        yield make
