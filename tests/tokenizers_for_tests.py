"""A tiny model's tokenizer files: one token a word."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers

from inference.tokens import ExactCounter

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    "{{ 'assistant' if add_generation_prompt }}"
)


def write(folder: Path, *, template: str | None = TEMPLATE) -> Path:
    """Write the files. A chat of one message of n words has n + 2 tokens: its role and the answer's beginning."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}})
    )
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    return folder


def hook(counter: ExactCounter, call: Callable[[], Any]) -> None:
    """Have `call` run in the middle of each text's tokenisation, in whatever thread that is."""
    steps = [pre_tokenizers.PreTokenizer.custom(_Step(call)), pre_tokenizers.WhitespaceSplit()]
    counter._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)


class _Step:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def pre_tokenize(self, _text: tokenizers.PreTokenizedString) -> None:
        self._call()
