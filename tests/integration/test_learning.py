"""From the end of one job to the estimate of the next, through worker, broker and submission."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from inference import submission
from inference.broker import CHUNK, Broker, BrokerAway, Claimed, connect
from inference.models import Job
from inference.states import Endpoint
from tests import factories, tokenizers_for_tests
from tests.integration import hosts
from tests.integration.hosts import Hosted, chunk
from tests.waiting import until
from workers.engine import EngineCall
from workers.execution import Abort

hosted = hosts.hosted


@pytest.fixture(autouse=True)
def model_files(models_dir: Path) -> None:
    tokenizers_for_tests.write(models_dir / factories.MODEL)


def submit(**overrides: Any) -> Job:
    body = factories.make_chat(**overrides)
    return submission.submit(caller=factories.make_caller(), endpoint=Endpoint.CHAT, body=body)


def answering(tokens: int) -> Any:
    async def reply(_call: EngineCall) -> bytes:
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 5, "completion_tokens": tokens}
        return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()

    return reply


def run_one(hosted: Hosted) -> Claimed:
    claimed = hosted.run(hosted.claim())
    hosted.end(len(hosted.ended) + 1)
    return claimed


def test_after_some_short_answers_little_is_expected_of_the_key(hosted: Hosted) -> None:
    hosted.engine.reply = answering(6)
    assert submit().expected_tokens == 256
    run_one(hosted)
    for _ in range(20):
        submit()
        run_one(hosted)
        hosted.host.observer.flush(hosted.broker)
    learned = submit()
    learned.refresh_from_db()
    assert learned.expected_tokens == 6
    assert hosted.broker.stats([hosts.QUEUE])[0].tokens == learned.prompt_tokens + 6
    assert submit(max_tokens=3).expected_tokens == 3


def test_estimates_go_by_the_rates_that_calls_showed(hosted: Hosted) -> None:
    hosted.engine.reply = answering(200)
    first = submit()
    for number in range(9):
        if number:
            submit()
        run_one(hosted)
    hosted.host.observer.flush(hosted.broker)
    later = submit()
    assert first.estimate_seconds == pytest.approx(first.prompt_tokens / 500 + 256 / 10)
    assert later.estimate_seconds < 0.5 * first.estimate_seconds  # an engine that answers at once


def test_all_jobs_of_a_bulk_are_estimated_in_their_own_length_class(hosted: Hosted) -> None:
    hosted.engine.reply = answering(6)
    for _ in range(20):
        submit()
        run_one(hosted)
    hosted.host.observer.flush(hosted.broker)
    bodies = [
        factories.make_chat("one"),
        factories.make_chat("word " * 3000),
        factories.make_chat("two", max_tokens=2),
    ]
    items = [submission.Submission(endpoint=Endpoint.CHAT, body=body) for body in bodies]
    jobs = submission.submit_many(caller=factories.make_caller(), items=items)
    assert [job.expected_tokens for job in jobs] == [6, 256, 2]


def tenant_pass(broker: Broker) -> float:
    """Service that the tenant was charged, in seconds: its weight is 1."""
    found: Any = broker.client.hget(f"{broker.prefix}pass:{factories.MODEL}:standard", "default")
    return float(found or 0)


def test_a_tenant_is_charged_what_its_job_used_in_the_end(hosted: Hosted) -> None:
    hosted.engine.reply = answering(6)
    submit()
    claimed = hosted.claim()
    assert tenant_pass(hosted.broker) == pytest.approx(claimed.estimate)
    hosted.run(claimed)
    hosted.end()
    assert tenant_pass(hosted.broker) == pytest.approx(5 / 500 + 6 / 10)


def test_a_stream_that_is_cancelled_is_charged_what_it_brought(hosted: Hosted) -> None:
    async def pieces(call: EngineCall) -> AsyncGenerator[bytes, None]:
        yield chunk("a") + chunk("b") + chunk("c")
        await hosted.engine.forever(call)

    hosted.engine.pieces = pieces
    job = submit(stream=True)
    claimed = hosted.run(hosted.claim())
    until(lambda: any(event.kind == CHUNK for event in hosted.broker.stream(job.id)))
    hosts.cancel(job)
    hosted.host.abort(claimed.token, Abort.CANCELLED)
    hosted.end()
    assert tenant_pass(hosted.broker) == pytest.approx(job.prompt_tokens / 500 + 3 / 10)


def test_a_job_that_never_began_is_charged_nothing(hosted: Hosted) -> None:
    job = submit()
    claimed = hosted.claim()
    hosts.cancel(job)
    hosted.run(claimed)
    hosted.end()
    assert tenant_pass(hosted.broker) == pytest.approx(0)


def test_what_cannot_be_told_to_the_broker_is_dropped_and_nothing_else(
    hosted: Hosted,
) -> None:
    hosted.engine.reply = answering(6)
    submit()
    run_one(hosted)
    away = Broker(connect("redis://127.0.0.1:1"), prefix="x:")
    with pytest.raises(BrokerAway):
        hosted.host.observer.flush(away)
    hosted.host.observer.flush(hosted.broker)
    assert submit().expected_tokens == 256
