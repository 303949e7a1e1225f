"""Token ids beyond a model's vocabulary never get as far as a queue."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from inference import errors, preparation
from inference.states import Endpoint
from tests import factories, tokenizers_for_tests

SIZE = 64
RULE = f"must be a token id from 0 to {SIZE - 1}, the last of model {factories.MODEL}"


@pytest.fixture
def folder(models_dir: Path) -> Path:
    return tokenizers_for_tests.write(models_dir / factories.MODEL)


def write_config(folder: Path, **config: Any) -> None:
    (folder / "config.json").write_text(json.dumps(config))


def prepare(**asked: Any) -> preparation.Prepared:
    body = {"model": factories.MODEL, "prompt": "Once", "max_tokens": 1, **asked}
    item = preparation.Submission(endpoint=Endpoint.COMPLETIONS, body=body)
    limits, now = factories.make_limits(), datetime.now(UTC)
    return preparation.prepare(factories.make_caller(), [item], limits=limits, now=now)[0]


def refusal(**asked: Any) -> errors.InvalidRequest:
    with pytest.raises(errors.InvalidRequest) as caught:
        prepare(**asked)
    return caught.value


@pytest.mark.parametrize("config", [{"vocab_size": SIZE}, {"text_config": {"vocab_size": SIZE}}], ids=str)
def test_an_id_that_the_model_does_not_have_is_refused_by_its_place(folder: Path, config: Any) -> None:
    write_config(folder, **config)
    error = refusal(prompt=[0, SIZE - 1, SIZE])

    assert error.param == "prompt[2]"
    assert error.message == f"prompt[2] {RULE}, not {SIZE}"


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("allowed_token_ids", [SIZE], "allowed_token_ids[0]"),
        ("stop_token_ids", [1, SIZE], "stop_token_ids[1]"),
        ("logit_bias", {str(SIZE): 1}, f"logit_bias.{SIZE}"),
    ],
)
def test_so_is_one_that_it_is_to_say_or_to_stop_at(folder: Path, name: str, value: Any, path: str) -> None:
    write_config(folder, vocab_size=SIZE)
    assert refusal(**{name: value}).message == f"{path} {RULE}, not {SIZE}"


def test_the_last_one_is_taken(folder: Path) -> None:
    write_config(folder, vocab_size=SIZE)
    last = SIZE - 1
    assert prepare(prompt=[last], stop_token_ids=[last], logit_bias={str(last): 1}).demand.prompt_tokens == 1


def test_a_prompt_may_hold_what_only_the_tokenizer_knows(folder: Path) -> None:
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["beyond"] = SIZE + 5
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_config(folder, vocab_size=SIZE)

    assert prepare(prompt=[SIZE + 5]).demand.prompt_tokens == 1
    assert refusal(stop_token_ids=[SIZE + 5]).param == "stop_token_ids[0]"


def test_where_no_configuration_tells_it_is_left_to_the_engine(folder: Path) -> None:
    assert prepare(prompt=[10**9], logit_bias={"1000000000": 1}).demand.prompt_tokens == 1
