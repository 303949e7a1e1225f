"""Counts prompt tokens exactly as the engine will, without its libraries: `tokenizers` and the chat template.

A model whose files are not here has its row say so, and its tokens are guessed.
"""

import contextlib
import functools
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tokenizers
from django.conf import settings

from inference import errors, token_bounds, vocabulary
from inference.chat_template import ChatTemplate, TemplateRefused
from inference.limits import ModelLimits
from inference.vocabulary import Vocabulary

TOKENIZER: Final = "tokenizer.json"
CONFIG: Final = "tokenizer_config.json"
TEMPLATE: Final = "chat_template.jinja"
BYTES_PER_TOKEN: Final = 4
"""Where tokens are guessed."""
BATCH_CHARACTERS: Final = 512 * 1024
"""Tokenised at a time: it takes about 200 bytes of memory for each. A longer text is tokenised alone, one in the
process at a time; how many wait for that is bounded where requests are taken in (`executor.LARGE_AT_ONCE`)."""
_SPECIAL: Final = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text to be counted."""

    text: str = field(repr=False)
    add_special_tokens: bool


class Counter(ABC):
    """Counts one model's prompts. Thread-safe."""

    vocabulary: Vocabulary | None = None
    """The token ids that there are; None where nobody here knows."""

    def chat(self, body: Mapping[str, Any]) -> int:
        """Tokens of a checked chat body, the template's included. Raises errors.InvalidRequest."""
        return self.count([self.chat_prompt(body)])[0]

    def text(self, prompt: str, *, add_special_tokens: bool = True) -> int:
        """Tokens of a completion's prompt, with those that the tokenizer puts around any text."""
        return self.count([Prompt(prompt, add_special_tokens)])[0]

    @abstractmethod
    def chat_prompt(self, body: Mapping[str, Any]) -> Prompt:
        """Render a checked chat body. Raises errors.InvalidRequest if it does not fit the model's template."""

    @abstractmethod
    def count(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each, in order."""

    def at_least(self, prompt: Prompt) -> int:  # noqa: ARG002 - others know
        """Tokens that the prompt's size alone proves: nothing is tokenised. 0 if it proves nothing."""
        return 0


class Estimate(Counter):
    """Guesses from bytes, where the model's files are not here: about right for English text.

    A chat is taken as the JSON of its messages and tools, whose brackets stand for what a template would add. The
    engine counts for itself, and refuses what is too long for it after all.
    """

    def chat_prompt(self, body: Mapping[str, Any]) -> Prompt:
        """Return the chat as JSON; every chat fits."""
        parts = [body["messages"], *([body["tools"]] if body.get("tools") else [])]
        return Prompt("".join(json.dumps(part, ensure_ascii=False) for part in parts), add_special_tokens=False)

    def count(self, prompts: Sequence[Prompt]) -> list[int]:
        """Bytes by four, rounded up."""
        return [-(-len(prompt.text.encode(errors="surrogatepass")) // BYTES_PER_TOKEN) for prompt in prompts]


class ExactCounter(Counter):
    """Counts with the model's tokenizer and template; gives up the GIL, so a long prompt stops nobody else."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._bound = token_bounds.bound(self._tokenizer)
        self._template = _template(folder)
        self.vocabulary = vocabulary.read(folder, self._tokenizer)

    def at_least(self, prompt: Prompt) -> int:
        """Tokens that the prompt's size alone proves, if the form of the tokenizer allows to say so."""
        return self._bound.at_least(prompt.text) if self._bound else 0

    def chat_prompt(self, body: Mapping[str, Any]) -> Prompt:
        """Render a checked chat body. Raises errors.InvalidRequest if it does not fit the model's template."""
        if self._template is None:
            raise errors.InvalidRequest(
                "messages: the model has no chat template, use completions", param="messages"
            )
        try:
            text = self._template.render(body)
        except TemplateRefused as error:
            raise errors.InvalidRequest(f"messages: {error}", param="messages") from error
        return Prompt(text, bool(body.get("add_special_tokens", False)))

    def count(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each, in order; many are counted in parallel."""
        counts = [0] * len(prompts)
        for special in (False, True):
            places = [i for i, prompt in enumerate(prompts) if prompt.add_special_tokens is special]
            for batch in _batches(places, prompts):
                counted = self._count([prompts[i].text for i in batch], special=special)
                for i, count in zip(batch, counted, strict=True):
                    counts[i] = count
        return counts

    def _count(self, texts: list[str], *, special: bool) -> list[int]:
        with _one_long if len(texts[0]) > BATCH_CHARACTERS else contextlib.nullcontext():
            return [len(found) for found in self._tokenizer.encode_batch_fast(texts, add_special_tokens=special)]


def _batches(places: Sequence[int], prompts: Sequence[Prompt]) -> Iterator[list[int]]:
    """Yield the places in batches of at most BATCH_CHARACTERS, or of one."""
    batch: list[int] = []
    room = BATCH_CHARACTERS
    for place in places:
        size = len(prompts[place].text)
        if batch and size > room:
            yield batch
            batch, room = [], BATCH_CHARACTERS
        batch.append(place)
        room -= size
    if batch:
        yield batch


_one_long: Final = threading.Lock()


_ESTIMATE: Final = Estimate()


def counter(model: ModelLimits) -> Counter:
    """Return the model's counter, loaded once for each version of its files. Raises errors.Unavailable.

    Missing files are an error unless the row says that there are none: a guess must be somebody's choice.
    """
    if model.estimates_tokens:
        return _ESTIMATE
    try:
        return _load(*_version(model))
    except Exception as error:  # tokenizers raises plain Exception for a file it cannot read
        message = f"model {model.name}: no usable {TOKENIZER} in its folder; is the model fetched?"
        raise errors.Unavailable(message, code="tokenizer_missing", retry_after_seconds=30) from error


def folder_of(model: ModelLimits) -> Path:
    """Return where the model's files are: below MODELS_DIR, an absolute path, or the hub's local cache."""
    local = Path(settings.MODELS_DIR) / model.source
    return local if local.is_dir() else _hub_cache(model.source) or local


def _hub_cache(source: str) -> Path | None:
    # Here, not above: a deployment with local models never needs it, and it is slow to import.
    import huggingface_hub  # noqa: PLC0415

    try:
        cached = huggingface_hub.try_to_load_from_cache(source, TOKENIZER)
    except huggingface_hub.errors.HFValidationError:
        return None  # a path, not a hub name
    return Path(cached).parent if isinstance(cached, str) else None


def _version(model: ModelLimits) -> tuple[Path, int]:
    """Return the tokenizer's file and when it was changed, by one look at it where it is a local one."""
    local = _local(settings.MODELS_DIR, model.source)
    with contextlib.suppress(OSError):
        return local, local.stat().st_mtime_ns
    found = folder_of(model) / TOKENIZER
    return found, found.stat().st_mtime_ns


@functools.lru_cache(maxsize=64)  # every submission asks
def _local(models_dir: Path, source: str) -> Path:
    return models_dir / source / TOKENIZER


@functools.lru_cache(maxsize=16)
def _load(file: Path, _changed: int) -> Counter:
    return ExactCounter(file.parent)


def _template(folder: Path) -> ChatTemplate | None:
    config = json.loads((folder / CONFIG).read_text()) if (folder / CONFIG).is_file() else {}
    separate = folder / TEMPLATE
    source = separate.read_text() if separate.is_file() else _default(config.get("chat_template"))
    special = {name: _content(config[name]) for name in _SPECIAL if config.get(name)}
    return None if source is None else ChatTemplate(source, special_tokens=special)


def _default(template: str | list[dict[str, str]] | None) -> str | None:
    if isinstance(template, list):
        return {entry["name"]: entry["template"] for entry in template}.get("default")
    return template


def _content(token: str | dict[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])
