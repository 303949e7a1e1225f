"""The token ids that a model has: others are refused before they are queued, by the bounds that vLLM has."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tokenizers

from inference import fields, parameters

CONFIG: Final = "config.json"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The last ids of a model."""

    last: int
    """Of those that it can say."""
    last_read: int
    """Of those that a prompt may hold: its tokenizer may know some that the model never says."""


def read(folder: Path, tokenizer: tokenizers.Tokenizer) -> Vocabulary | None:
    """Return the vocabulary of the model in the folder; None if its configuration does not say so."""
    config = json.loads((folder / CONFIG).read_text()) if (folder / CONFIG).is_file() else {}
    parts: list[dict[str, Any]] = [config, config.get("text_config") or {}]
    size = max(int(part.get("vocab_size") or 0) for part in parts)
    if not size:
        return None
    return Vocabulary(size - 1, max(size - 1, *tokenizer.get_vocab(with_added_tokens=True).values()))


def check(body: Mapping[str, Any], found: Vocabulary, model: str) -> None:
    """Check all token ids of a checked body. Raises errors.InvalidRequest that names the id and the last one."""
    if isinstance(body.get("prompt"), list):
        _check("prompt", body["prompt"], found.last_read, model)
    for name in parameters.TOKEN_IDS:
        _check(name, body.get(name) or [], found.last, model)
    for token_id in body.get("logit_bias") or {}:
        if int(token_id) > found.last:
            raise fields.wrong(f"logit_bias.{token_id}", _rule(found.last, model), int(token_id))


def _check(name: str, token_ids: Iterable[int], last: int, model: str) -> None:
    if max(token_ids, default=0) > last:
        place, token_id = next((i, each) for i, each in enumerate(token_ids) if each > last)
        raise fields.wrong(f"{name}[{place}]", _rule(last, model), token_id)


def _rule(last: int, model: str) -> str:
    return f"must be a token id from 0 to {last}, the last of model {model}"
