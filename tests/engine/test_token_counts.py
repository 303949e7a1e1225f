"""Prompts are counted as the engine counts them: its own `usage.prompt_tokens`, to the token."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from inference import errors, preparation
from inference.preparation import Prepared, Submission
from inference.states import Endpoint, EngineKind
from tests import engines as builders
from tests import factories
from tests.engine.real_chats import CHATS, TEXTS
from workers.engine import EngineCall, EngineRefused

pytestmark = [
    pytest.mark.engine,
    pytest.mark.once,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.parametrize("child", [EngineKind.VLLM], indirect=True, ids=["vllm"]),
]

MOST = factories.make_model_limits().max_model_len


def prepared(endpoint: Endpoint, body: dict[str, Any]) -> Prepared:
    """The request as it is when it is admitted. Raises errors.InvalidRequest."""
    asked = {"model": factories.MODEL, "max_tokens": 1, **body}
    item = Submission(endpoint=endpoint, body=asked)
    limits, now = factories.make_limits(), datetime.now(UTC)
    return preparation.prepare(factories.make_caller(), [item], limits=limits, now=now)[0]


def call(item: Prepared) -> EngineCall:
    """What the engine is sent for it."""
    body = preparation._engine_body(item.draft, stream=False)
    return EngineCall(item.draft.request.endpoint, body.encode(), request_id="count")


async def counted(child: builders.Child, endpoint: Endpoint, body: dict[str, Any]) -> tuple[int, int]:
    """Our count and the engine's."""
    item = prepared(endpoint, body)
    answer = json.loads(await child[0].generate(call(item)))
    return item.demand.prompt_tokens, answer["usage"]["prompt_tokens"]


@pytest.mark.parametrize("body", CHATS.values(), ids=CHATS.keys())
async def test_a_chat_has_as_many_tokens_as_the_engine_says(child: builders.Child, body: dict[str, Any]) -> None:
    ours, theirs = await counted(child, Endpoint.CHAT, body)
    assert ours == theirs


@pytest.mark.parametrize("body", TEXTS.values(), ids=TEXTS.keys())
async def test_a_text_has_as_many_tokens_as_the_engine_says(child: builders.Child, body: dict[str, Any]) -> None:
    ours, theirs = await counted(child, Endpoint.COMPLETIONS, body)
    assert ours == theirs


# At the limit.


def bodies_of(prompt_tokens: int) -> list[tuple[Endpoint, dict[str, Any]]]:
    """A chat and a text of exactly so many tokens."""
    around = prepared(Endpoint.CHAT, {"messages": [{"role": "user", "content": ""}]}).demand.prompt_tokens
    chat = [{"role": "user", "content": " word" * (prompt_tokens - around)}]
    return [(Endpoint.CHAT, {"messages": chat}), (Endpoint.COMPLETIONS, {"prompt": " word" * prompt_tokens})]


async def engines_count(child: builders.Child, body: dict[str, Any]) -> int:
    """Tokens by vLLM's `/tokenize`: near its limit a prompt would keep the CPU busy for half a minute."""
    transport = httpx.AsyncHTTPTransport(uds=str(child[1].socket_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine", timeout=60) as client:
        answer = await client.post("/tokenize", json={"model": factories.MODEL, **body})
    return int(answer.raise_for_status().json()["count"])


async def test_the_longest_prompt_that_fits_is_counted_to_the_token(child: builders.Child) -> None:
    for endpoint, body in bodies_of(MOST - 1):
        assert prepared(endpoint, body).demand.prompt_tokens == await engines_count(child, body) == MOST - 1


async def test_one_token_more_is_refused_before_the_engine_would(child: builders.Child) -> None:
    for endpoint, body in bodies_of(MOST):
        with pytest.raises(errors.InvalidRequest) as caught:
            prepared(endpoint, body)
        assert caught.value.code == "context_length_exceeded"

        asked = json.dumps({"model": factories.MODEL, "max_tokens": 1, **body})
        with pytest.raises(EngineRefused):
            await child[0].generate(EngineCall(endpoint, asked.encode(), request_id="count"))


@pytest.mark.parametrize("cut", [0, MOST + 1])
async def test_a_cut_that_the_engine_refuses_is_refused_before(child: builders.Child, cut: int) -> None:
    body = {"prompt": "Once upon a time", "truncate_prompt_tokens": cut}
    asked = json.dumps({"model": factories.MODEL, "max_tokens": 1, **body})
    with pytest.raises(EngineRefused):
        await child[0].generate(EngineCall(Endpoint.COMPLETIONS, asked.encode(), request_id="count"))
    with pytest.raises(errors.InvalidRequest) as caught:
        prepared(Endpoint.COMPLETIONS, body)
    assert caught.value.param == "truncate_prompt_tokens"


async def test_a_prompt_cut_to_what_fits_leaves_a_token_for_the_answer(child: builders.Child) -> None:
    [(endpoint, body), _] = bodies_of(MOST + 100)
    item = prepared(endpoint, {**body, "truncate_prompt_tokens": -1, "max_tokens": None})
    assert item.demand.prompt_tokens == MOST - 1
    assert json.loads(call(item).body)["truncate_prompt_tokens"] == MOST - 1


LAST = 49_151
"""The bundled model's last token id."""


@pytest.mark.parametrize(
    ("name", "last", "beyond"),
    [
        ("prompt", [LAST], [LAST + 1]),
        ("logit_bias", {str(LAST): 1}, {str(LAST + 1): 1}),
        ("allowed_token_ids", [LAST], [LAST + 1]),
        ("stop_token_ids", [LAST], [LAST + 1]),
    ],
)
async def test_a_token_id_is_refused_where_the_engine_has_no_more(
    child: builders.Child, name: str, last: object, beyond: object
) -> None:
    body: dict[str, Any] = {"prompt": "Once", "max_tokens": 1}
    await child[0].generate(call(prepared(Endpoint.COMPLETIONS, body | {name: last})))

    with pytest.raises(errors.InvalidRequest):
        prepared(Endpoint.COMPLETIONS, body | {name: beyond})
    asked = json.dumps({"model": factories.MODEL, **body, name: beyond})
    with pytest.raises(EngineRefused):
        await child[0].generate(EngineCall(Endpoint.COMPLETIONS, asked.encode(), request_id="count"))
