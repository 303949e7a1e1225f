"""Fixtures of the API's tests: the server, a worker for it, and a tokenizer."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.conf import settings

from inference.api import authentication
from inference.broker import Broker
from tests import factories, tokenizers_for_tests
from tests.integration.api_server import Api, Hand, echo_jobs, serve
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def tokenizer(models_dir: Path) -> Path:
    """The default model's tokenizer: a token a word."""
    return tokenizers_for_tests.write(models_dir / factories.MODEL)


@pytest.fixture
def api(sluice: Broker, valkey: str, tokenizer: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    """The whole web process, in a thread."""
    monkeypatch.setattr(settings, "REDIS_URL", valkey)
    monkeypatch.setattr(settings, "BROKER_PREFIX", sluice.prefix)
    _broadcast_to(valkey, monkeypatch)
    authentication.forget()
    _, key = factories.make_key()
    with serve() as port:
        served = Api(port, key)
        yield served
        served.client.close()


def _broadcast_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Celery tell workers of cancels there: it stays with the server it knew first, and tries for seconds."""
    monkeypatch.setattr(current_app.conf, "broker_url", url)
    monkeypatch.setattr(current_app, "_pool", None)
    monkeypatch.setattr(current_app.amqp, "_producer_pool", None)


@pytest.fixture
def hand(api: Api, sluice: Broker) -> Iterator[Hand]:
    """A worker for the server's jobs."""
    worker = Hand(sluice)
    yield worker
    worker.close()


@pytest.fixture
def echo(hand: Hand) -> Iterator[None]:
    """The same worker at work: answers every job with its last user message or prompt, word by word."""
    stop = threading.Event()
    thread = threading.Thread(target=echo_jobs, args=(hand, stop))
    thread.start()
    yield
    stop.set()
    thread.join(timeout=PATIENCE_SECONDS)
