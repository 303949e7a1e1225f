"""How many tokens a text holds at least, told from its size alone: what is far too long need not be tokenised."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tokenizers

NFC_SHRINKS: Final = 4
"""More than NFC ever takes off a text's bytes: three to one, as of the kelvin sign."""
_PRINTED: Final = frozenset([*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])


@dataclass(frozen=True, slots=True)
class Bound:
    """What is sure of a tokenizer."""

    most_bytes: int
    """One token covers no more of a text."""
    dropped: bytes = b""
    """Bytes that are in no token: the tokenizer passes over them."""

    def at_least(self, text: str) -> int:
        """Tokens that the text's size proves."""
        size = len(text.encode(errors="surrogatepass").translate(None, self.dropped))
        return -(-size // self.most_bytes)


def bound(tokenizer: tokenizers.Tokenizer) -> Bound | None:
    """Return what is sure; None if nothing is.

    It is sure of a byte-level BPE that drops nothing but bytes it does not know, the form of most models today.
    """
    form = json.loads(tokenizer.to_str())
    if not (_is_plain_bpe(form["model"]) and _drops_nothing(form) and _is_bytes(form["pre_tokenizer"])):
        return None
    added = form["added_tokens"]
    dropped = _unknown(form["model"]["vocab"])
    # A token that strips takes all spaces around it; what NFC makes of dropped bytes is not known.
    if any(token["lstrip"] or token["rstrip"] for token in added) or (dropped and form["normalizer"]):
        return None
    # In byte-level form a character stands for a byte; an added token is text.
    longest = max(*map(len, form["model"]["vocab"]), *(len(token["content"].encode()) for token in added), 1)
    return Bound(longest * (NFC_SHRINKS if form["normalizer"] else 1), dropped)


def _is_plain_bpe(model: Mapping[str, Any]) -> bool:
    affixes = ("continuing_subword_prefix", "end_of_word_suffix", "unk_token")
    return model["type"] == "BPE" and not any(model.get(affix) for affix in affixes)


def _unknown(vocab: Mapping[str, int]) -> bytes:
    """Return the bytes without a token, of those that UTF-8 uses."""
    used = [*range(0xC0), *range(0xC2, 0xF5)]
    return bytes(byte for byte in used if _character(byte) not in vocab)


def _character(byte: int) -> str:
    """Return what stands for a byte in byte-level form: itself if it can be printed, else one from U+0100 on."""
    if byte in _PRINTED:
        return chr(byte)
    return chr(0x100 + sum(b not in _PRINTED for b in range(byte)))


def _drops_nothing(form: Mapping[str, Any]) -> bool:
    normalizers = list(_steps(form["normalizer"], "normalizers"))
    steps = list(_steps(form["pre_tokenizer"], "pretokenizers"))
    kept = all(
        s["type"] in {"ByteLevel", "Digits"} or s.get("behavior") in {"Isolated", "Contiguous"} for s in steps
    )
    return kept and len(normalizers) <= 1 and all(step["type"] == "NFC" for step in normalizers)


def _is_bytes(pre_tokenizer: Mapping[str, Any] | None) -> bool:
    return any(step["type"] == "ByteLevel" for step in _steps(pre_tokenizer, "pretokenizers"))


def _steps(step: Mapping[str, Any] | None, parts: str) -> Iterator[Mapping[str, Any]]:
    if step and step["type"] == "Sequence":
        for part in step[parts]:
            yield from _steps(part, parts)
    elif step:
        yield step
