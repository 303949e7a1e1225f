"""What is accepted is written and queued; what is refused as it came leaves nothing."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError

from inference import broker as broker_module
from inference import errors, lifecycle, snapshot
from inference.broker import Broker
from inference.models import Job, ServedModel, Tier
from inference.states import Endpoint
from tests import factories
from tests.integration import submitting
from tests.integration.submitting import LONG_QUEUE, QUEUE, assert_nothing_left, submit, waiting

model_files = submitting.model_files


def test_an_accepted_job_is_a_row_and_an_entry(sluice: Broker) -> None:
    job = submit(body=factories.make_chat("one two three", max_tokens=7))
    job.refresh_from_db()
    [stats] = sluice.stats([QUEUE])

    assert (job.status, job.queue, job.prompt_tokens, job.expected_tokens) == ("queued", QUEUE, 5, 7)
    assert job.estimate_seconds == pytest.approx(5 / 500 + 7 / 10)
    assert (stats.jobs, stats.tokens) == (1, 12)
    assert sluice.held([job.id]) == {job.id}


def test_the_engines_body_is_the_clients_less_what_is_ours(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(service_tier="flex", priority=1, top_k=5, stream=True, extra={"a": "ü"}))

    body = json.loads(job.request)
    assert body == factories.make_chat(top_k=5, stream=True, extra={"a": "ü"})
    assert (job.tier_id, job.streamed) == ("bulk", True)


def test_stream_set_by_the_api_wins_over_the_body(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(stream=True, stream_options={"include_usage": True}), stream=False)

    assert not job.streamed
    assert json.loads(job.request) == factories.make_chat(stream=False)


def test_a_completion_is_counted_as_text_or_by_its_ids(sluice: Broker) -> None:
    text = submit(endpoint=Endpoint.COMPLETIONS, body={"model": factories.MODEL, "prompt": "one two"})
    ids = submit(endpoint=Endpoint.COMPLETIONS, body={"model": factories.MODEL, "prompt": [1, 2, 3, 4]})

    assert (text.prompt_tokens, text.expected_tokens) == (2, 16)
    assert (ids.prompt_tokens, json.loads(ids.request)["prompt"]) == (4, [1, 2, 3, 4])


def test_a_long_prompt_goes_to_its_own_queue(sluice: Broker) -> None:
    assert submit(body=factories.make_chat("word " * 3000)).queue == LONG_QUEUE


def test_a_synchronous_call_has_the_shorter_deadline(sluice: Broker) -> None:
    job = submit(body=factories.make_chat(service_tier="flex"), synchronous=True)

    assert (job.start_deadline_at - job.created_at).total_seconds() == 600


def test_a_job_may_have_an_id_known_before(sluice: Broker) -> None:
    job_id = uuid.uuid4()

    assert submit(job_id=job_id).id == job_id


@pytest.mark.parametrize(
    ("overrides", "error", "param"),
    [
        ({"body": []}, errors.InvalidRequest, None),
        ({"body": factories.make_chat(max_tokens=-1)}, errors.InvalidRequest, "max_tokens"),
        ({"body": factories.make_chat("a\x00")}, errors.InvalidRequest, "messages[0].content"),
        ({"body": factories.make_chat("\ud800")}, errors.InvalidRequest, "messages[0].content"),
        ({"body": {**factories.make_chat(), "model": "gpt-9"}}, errors.NotFound, "model"),
        ({"body": factories.make_chat(service_tier="gold")}, errors.InvalidRequest, "service_tier"),
        ({"tier": "gold"}, errors.InvalidRequest, "tier"),
        (
            {"tier": "bulk", "body": factories.make_chat(service_tier="priority")},
            errors.InvalidRequest,
            "service_tier",
        ),
        ({"body": factories.make_chat("word " * 9000)}, errors.InvalidRequest, "messages"),
        ({"body": factories.make_chat(max_tokens=8190)}, errors.InvalidRequest, "max_tokens"),
        ({"body": factories.make_chat(min_tokens=8190)}, errors.InvalidRequest, "min_tokens"),
        (
            {"body": factories.make_chat(max_completion_tokens=9000)},
            errors.InvalidRequest,
            "max_completion_tokens",
        ),
        (
            {"caller": factories.make_caller(tiers=frozenset({"bulk"}))},
            errors.Forbidden,
            "service_tier",
        ),
    ],
)
def test_a_refusal_names_the_field_and_leaves_nothing(
    sluice: Broker, overrides: dict[str, Any], error: type[errors.SluiceError], param: str | None
) -> None:
    with pytest.raises(error) as caught:
        submit(**overrides)

    assert caught.value.param == param
    assert_nothing_left(sluice)


def test_too_long_a_prompt_is_told_with_limit_and_value(sluice: Broker) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        submit(body=factories.make_chat("word " * 9000))

    assert caught.value.code == "context_length_exceeded"
    assert "9002 tokens" in caught.value.message
    assert "8192" in caught.value.message


def test_a_disabled_model_is_not_served(sluice: Broker) -> None:
    ServedModel.objects.update(enabled=False)
    with pytest.raises(errors.NotFound):
        submit()


def test_a_model_without_files_is_unavailable_not_a_crash(sluice: Broker, models_dir: Path) -> None:
    (models_dir / factories.MODEL / "tokenizer.json").unlink()
    with pytest.raises(errors.Unavailable) as caught:
        submit()

    assert "tokenizer.json" in caught.value.message
    assert_nothing_left(sluice)


def test_without_redis_nothing_is_accepted(without_redis: None) -> None:
    with pytest.raises(errors.Unavailable) as caught:
        submit()

    assert caught.value.retry_after_seconds
    assert Job.objects.count() == 0


def test_redis_going_away_after_the_commit_leaves_the_job_accepted(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(entries: object) -> None:
        raise broker_module.BrokerAway("gone")

    monkeypatch.setattr(sluice, "publish", away)
    job = submit()

    assert Job.objects.get(id=job.id).status == "queued"
    assert waiting(sluice) == 0


def test_a_row_that_cannot_be_written_leaves_no_reservation(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(jobs: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(lifecycle, "create", locked)
    with pytest.raises(errors.Unavailable):
        submit()

    assert_nothing_left(sluice)


def test_a_key_deleted_while_it_was_cached_is_no_crash(sluice: Broker) -> None:
    with pytest.raises(errors.Unavailable):
        submit(caller=factories.make_caller(api_key_id="sk-gone"))

    assert_nothing_left(sluice)


def test_without_service_tier_the_default_tier_takes_the_job(sluice: Broker) -> None:
    assert submit().tier_id == "standard"
    Tier.objects.filter(name="standard").update(service_tiers=[])
    Tier.objects.filter(name="bulk").update(service_tiers=["default", "flex"])
    snapshot.forget()

    assert submit().tier_id == "bulk"
