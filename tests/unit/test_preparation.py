"""How many of a prompt's tokens are counted where the engine may cut it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from inference import errors, preparation
from inference.states import Endpoint
from tests import factories, tokenizers_for_tests

MOST = factories.make_model_limits().max_model_len


@pytest.fixture(autouse=True)
def folder(models_dir: Path) -> Path:
    """A token a word."""
    return tokenizers_for_tests.write(models_dir / factories.MODEL)


def prepare(words: int, cut: int | None) -> preparation.Prepared:
    body = {"model": factories.MODEL, "prompt": "word " * words, "max_tokens": 1, "truncate_prompt_tokens": cut}
    item = preparation.Submission(endpoint=Endpoint.COMPLETIONS, body=body)
    limits, now = factories.make_limits(), datetime.now(UTC)
    return preparation.prepare(factories.make_caller(), [item], limits=limits, now=now)[0]


@pytest.mark.parametrize(
    ("words", "cut", "left"),
    [(9, None, 9), (9, 5, 5), (9, 20, 9), (9, -1, 9), (MOST + 5, -1, MOST - 1), (MOST + 5, 1, 1), (9, MOST, 9)],
)
def test_a_prompt_counts_as_what_is_left_of_it(words: int, cut: int | None, left: int) -> None:
    assert prepare(words, cut).demand.prompt_tokens == left


def test_what_fits_is_told_to_the_engine_as_a_number() -> None:
    assert (
        json.loads(preparation._engine_body(prepare(9, -1).draft, stream=False))["truncate_prompt_tokens"]
        == MOST - 1
    )


@pytest.mark.parametrize("cut", [0, MOST + 1])
def test_a_cut_that_leaves_nothing_or_cuts_nothing_is_refused(cut: int) -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        prepare(9, cut)
    assert caught.value.param == "truncate_prompt_tokens"
    assert f"from 1 to {MOST}" in caught.value.message


def test_a_cut_to_all_that_the_model_takes_leaves_no_room_for_an_answer() -> None:
    with pytest.raises(errors.InvalidRequest) as caught:
        prepare(MOST + 5, MOST)
    assert caught.value.code == "context_length_exceeded"
