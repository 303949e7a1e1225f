"""The simulated engine's words are the same for the same seed and prompt, and keep to what was asked."""

import json
from typing import Any

import pytest

from workers.sim import config, request, wire
from workers.sim.config import SimConfig
from workers.sim.request import Refused, SimRequest

CONFIG = SimConfig(
    model="m", max_model_len=512, fact_question="capital of France?", fact_answer="It is Paris.", seed=1
)


def chat(content: str = "Tell me a story.", *, settings: SimConfig = CONFIG, **fields: Any) -> SimRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **fields}
    return request.parse(settings, json.dumps(body).encode(), is_chat=True)


def test_the_same_prompt_has_the_same_answer_and_another_prompt_or_seed_another() -> None:
    other_seed = SimConfig(model="m", max_model_len=512, seed=2)
    assert chat().reply == chat().reply
    assert chat().reply != chat("Tell me another.").reply
    assert chat().reply != chat(settings=other_seed).reply


def test_it_knows_its_fact() -> None:
    asked = chat("What is the capital of France?")
    assert "".join(asked.reply) == "It is Paris."
    assert not asked.is_cut


def test_max_tokens_cuts_an_answer() -> None:
    asked = chat(max_tokens=3)
    assert len(asked.reply) == 3
    assert asked.is_cut


def test_max_completion_tokens_is_the_newer_name_of_max_tokens() -> None:
    assert len(chat(max_completion_tokens=2).reply) == 2


def test_an_answer_ends_by_itself_unless_told_to_go_on() -> None:
    assert not chat(max_tokens=400).is_cut
    assert len(chat(max_tokens=400, ignore_eos=True).reply) == 400
    assert len(chat(max_tokens=400, min_tokens=300).reply) >= 300


def test_content_may_come_in_parts() -> None:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Tell me a story."}]}],
    }
    assert request.parse(CONFIG, json.dumps(body).encode(), is_chat=True).reply == chat().reply


def test_a_completion_takes_text_or_token_ids_and_is_short_by_default() -> None:
    for prompt in ("Once", [1, 2, 3]):
        body = json.dumps({"model": "m", "prompt": prompt, "ignore_eos": True}).encode()
        assert len(request.parse(CONFIG, body, is_chat=False).reply) == 16


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "many"}, "max_tokens"),
        ({"max_tokens": 512}, "input_tokens"),
        ({"model": "other"}, "model"),
    ],
)
def test_what_vllm_refuses_is_refused_by_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(Refused) as refused:
        chat(**fields)
    assert refused.value.param == param
    assert json.loads(refused.value.envelope())["error"]["code"] in {400, 404}


@pytest.mark.parametrize("body", [b"", b"{", b"[]"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        request.parse(CONFIG, body, is_chat=True)


def test_a_streams_pieces_join_to_the_whole_answer() -> None:
    asked = chat(max_tokens=5, stream=True, stream_options={"include_usage": True})
    writer = wire.Writer(asked, model="m", request_id="1", now=0)

    sent = (writer.opening() + writer.tokens(0, 2) + writer.tokens(2, 5) + writer.closing()).decode()

    events = [event.removeprefix("data: ") for event in sent.split("\n\n")[:-1]]
    opening, *pieces, usage = [json.loads(event) for event in events[:-1]]
    assert events[-1] == "[DONE]"
    assert opening["choices"][0]["delta"]["role"] == "assistant"
    whole = json.loads(writer.whole())["choices"][0]
    assert "".join(piece["choices"][0]["delta"]["content"] for piece in pieces) == whole["message"]["content"]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, None, None, None, "length"]
    assert usage["usage"]["completion_tokens"] == 5


def test_the_command_line_fills_the_config_and_the_last_of_two_options_counts() -> None:
    address, parsed = config.parse(
        ["--uds=/s", "--model=m", "--decode-tps=1", "--decode-tps", "2.5", "--seed", "3"]
    )
    assert (address.uds, parsed.model, parsed.decode_tps, parsed.seed) == ("/s", "m", 2.5, 3)


def test_it_says_of_its_prompt_what_it_was_told_and_takes_its_own_time() -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Tell me a story."}]}).encode()
    told, guessed = (request.parse(CONFIG, body, is_chat=True, told_tokens=header) for header in ("32", ""))
    assert (told.told_tokens, told.prompt_tokens) == (32, guessed.prompt_tokens)
    assert guessed.told_tokens == guessed.prompt_tokens != 32
    answer = json.loads(wire.Writer(told, model="m", request_id="r", now=0).whole())
    assert answer["usage"]["prompt_tokens"] == 32
