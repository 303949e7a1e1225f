"""The Celery message of a claim."""

import uuid

from kombu.utils import json

from inference import tasks
from inference.broker.types import Claimed
from tests import factories
from workers import envelope


def make_claimed(**overrides: object) -> Claimed:
    values: dict[str, object] = {
        "token": factories.make_token(uuid.uuid4()),
        "queue": f"{factories.MODEL}.standard.short",
        "tenant": "acme",
        "prompt_tokens": 10,
        "expected_tokens": 20,
        "estimate": 1.0,
        "arrival_ms": 1,
        "claimed_ms": 2,
        "streamed": False,
        "body": b"",
    }
    return Claimed(**values | overrides)  # type: ignore[arg-type]


def test_a_job_is_the_registered_task_with_the_claim_as_id_and_tag_and_no_arguments() -> None:
    claimed = make_claimed()
    message = envelope.message(claimed)
    assert message["headers"]["task"] == tasks.RUN_JOB
    assert message["headers"]["id"] == message["properties"]["delivery_tag"] == claimed.token.tag
    assert json.loads(message["body"])[:2] == [[], {}]


def test_the_pool_finds_the_claim_in_the_headers() -> None:
    claimed = make_claimed()
    assert envelope.claim_of(envelope.message(claimed)["headers"]) is claimed


def test_flower_sees_where_a_job_came_from_and_its_size() -> None:
    shown = envelope.message(make_claimed())["headers"]["kwargsrepr"]
    assert "acme" in shown
    assert "'prompt_tokens': 10" in shown


def test_a_task_keeps_its_own_message_under_the_tag_of_this_claim() -> None:
    stored = {"headers": {"id": "t", "task": "inference.reap"}, "properties": {"delivery_tag": "old"}, "body": "x"}
    claimed = make_claimed(body=json.dumps(stored).encode())
    message = envelope.message(claimed)
    assert message["headers"] == stored["headers"]
    assert message["properties"]["delivery_tag"] == claimed.token.tag
