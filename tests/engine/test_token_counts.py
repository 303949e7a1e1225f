"""Prompt tokens are counted as the model's own library counts them."""

from typing import Any

import pytest
import transformers
from django.conf import settings

from inference import tokens
from tests import factories

pytestmark = [pytest.mark.engine, pytest.mark.once]

TEXTS = [
    "Hello",
    "Ünï 漢字 🙂",
    "a  b\n\n\tc",
    "<|im_end|> <|im_start|>user",
    "1234567890 " * 50,
    " leading and trailing ",
]
CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi there"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ünï 漢字 <|im_end|> \n\n  "}],
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "word " * 3000},
    ],
]


@pytest.fixture(scope="module")
def reference() -> Any:
    return transformers.AutoTokenizer.from_pretrained(settings.MODELS_DIR / factories.MODEL)


@pytest.mark.parametrize("text", TEXTS)
def test_a_completions_prompt_has_as_many_tokens_as_the_model_sees(reference: Any, text: str) -> None:
    assert tokens.counter(factories.make_model_limits()).text(text) == len(reference.encode(text))


@pytest.mark.parametrize("messages", CHATS, ids=len)
def test_a_chat_has_as_many_tokens_as_the_model_sees(reference: Any, messages: list[dict[str, Any]]) -> None:
    seen = reference.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)

    assert tokens.counter(factories.make_model_limits()).chat({"messages": messages}) == len(seen)


def test_a_continued_message_has_as_many_tokens_as_the_model_sees(reference: Any) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well, "}]
    body = {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    seen = reference.apply_chat_template(messages, continue_final_message=True, return_dict=False)

    assert tokens.counter(factories.make_model_limits()).chat(body) == len(seen)
