"""The openai SDK with nothing changed but `base_url` and `api_key`."""

import uuid
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from inference.models import ApiKey, Job, QueueLimit
from tests import factories, waiting
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]

HELLO: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "one two three"}]


@pytest.fixture
def sdk(api: Api) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{api.url}/v1", api_key=api.key, max_retries=0, timeout=20) as client:
        yield client


def test_a_chat_is_answered(sdk: openai.OpenAI, echo: None) -> None:
    answer = sdk.chat.completions.create(model=factories.MODEL, messages=HELLO)
    assert answer.choices[0].message.content == "one two three"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer.service_tier == "default"


@pytest.mark.parametrize(
    ("asked", "tier", "told"),
    [("auto", "standard", "default"), ("priority", "realtime", "priority"), ("flex", "bulk", "flex")],
)
def test_the_service_tier_picks_the_tier_and_is_echoed(
    sdk: openai.OpenAI, echo: None, asked: Any, tier: str, told: str
) -> None:
    raw = sdk.chat.completions.with_raw_response.create(
        model=factories.MODEL,
        messages=HELLO,
        service_tier=asked,
    )
    assert raw.parse().service_tier == told
    assert raw.headers["x-sluice-tier"] == tier
    assert Job.objects.get(id=uuid.UUID(raw.headers["x-sluice-job-id"])).tier_id == tier


def test_a_chat_is_streamed(sdk: openai.OpenAI, echo: None) -> None:
    stream = sdk.chat.completions.create(model=factories.MODEL, messages=HELLO, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "one two three "
    assert stream.response.headers["content-type"] == "text/event-stream"
    assert stream.response.headers["x-sluice-tier"] == "standard"
    assert Job.objects.get(id=uuid.UUID(stream.response.headers["x-sluice-job-id"])).streamed


def test_a_completion_is_answered_and_streamed(sdk: openai.OpenAI, echo: None) -> None:
    answer = sdk.completions.create(model=factories.MODEL, prompt="four five")
    assert answer.choices[0].text == "four five"
    stream = sdk.completions.create(model=factories.MODEL, prompt="four five", stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "four five "


def test_the_models_are_listed_and_found(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == [factories.MODEL]
    assert sdk.models.retrieve(factories.MODEL).id == factories.MODEL


@pytest.mark.parametrize("key", ["sk-wrong", "sk-aaaaaaaa." + "a" * 40, "not a key at all"])
def test_a_wrong_key_is_an_authentication_error(sdk: openai.OpenAI, key: str) -> None:
    with pytest.raises(openai.AuthenticationError) as caught:
        sdk.with_options(api_key=key).chat.completions.create(model=factories.MODEL, messages=HELLO)
    assert caught.value.code == "invalid_api_key"


def test_a_revoked_key_is_refused_within_a_second(sdk: openai.OpenAI, api: Api) -> None:
    sdk.models.list()
    row = ApiKey.objects.get()
    row.revoked = True
    row.save()

    def is_refused() -> bool:
        return api.get("/v1/models").status_code == 401

    waiting.until(is_refused)


def test_an_unknown_model_is_not_found(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.chat.completions.create(model="gpt-9", messages=HELLO)
    assert caught.value.code == "model_not_found"
    assert "gpt-9" in caught.value.message
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-9")


def test_too_long_a_prompt_is_a_bad_request_that_names_the_limit(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(model=factories.MODEL, messages=[{"role": "user", "content": "word " * 9000}])
    assert "8192" in caught.value.message
    assert "9002" in caught.value.message


def test_a_full_queue_is_a_rate_limit_error_that_says_when_to_come_back(sdk: openai.OpenAI) -> None:
    QueueLimit.objects.create(queue=f"{factories.MODEL}.standard.short", max_jobs=0)
    with pytest.raises(openai.RateLimitError) as caught:
        sdk.chat.completions.create(model=factories.MODEL, messages=HELLO)
    assert int(caught.value.response.headers["retry-after"]) >= 1
    assert Job.objects.count() == 0
