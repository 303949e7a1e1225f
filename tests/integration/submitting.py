"""Jobs submitted as an API would do it."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from inference import snapshot, submission
from inference.broker import Broker
from inference.models import Job
from inference.states import Endpoint
from tests import factories, tokenizers_for_tests
from tests.integration import broker_jobs

QUEUE = f"{factories.MODEL}.standard.short"
LONG_QUEUE = f"{factories.MODEL}.standard.long"


@pytest.fixture(autouse=True)
def model_files(models_dir: Path) -> None:
    """The default model's tokenizer: a token a word."""
    tokenizers_for_tests.write(models_dir / factories.MODEL)


def submit(**overrides: Any) -> Job:
    """Submit a chat of the default tenant."""
    values: dict[str, Any] = {"caller": factories.make_caller(), "endpoint": Endpoint.CHAT}
    values["body"] = factories.make_chat()
    return submission.submit(**values | overrides)


def waiting(broker: Broker, queue: str = QUEUE) -> int:
    return broker.stats([queue])[0].jobs


def assert_nothing_left(broker: Broker) -> None:
    """Check that there is neither a row, nor an entry, nor a reservation."""
    assert Job.objects.count() == 0
    assert all(stats.jobs == 0 for stats in broker.stats(snapshot.read().queues()))
    room = broker_jobs.admit(broker, QUEUE, [uuid.uuid4()], cap=1)
    assert room.accepted, "a reservation is left"
