"""What a text's size proves of its tokens: never more than there are."""

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import tokenizers
from hypothesis import strategies as st
from tokenizers import AddedToken, models, normalizers, pre_tokenizers

from inference import token_bounds
from inference.token_bounds import Bound

WORDS = ["hello", "Ġworld", "ĠĠĠĠĠĠĠĠ"]
Change = Callable[[tokenizers.Tokenizer], Any]


def make_tokenizer(*added: str | AddedToken, **overrides: Any) -> tokenizers.Tokenizer:
    """A byte-level BPE whose longest merge is of eight bytes."""
    vocab = dict.fromkeys(pre_tokenizers.ByteLevel.alphabet())
    merges = []
    for word in WORDS:
        for end in range(2, len(word) + 1):
            merges.append((word[: end - 1], word[end - 1]))
            vocab[word[:end]] = None
    ids = {token: i for i, token in enumerate(vocab)}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges, **overrides))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens(list(added))
    return tokenizer


def test_the_longest_token_is_the_bound() -> None:
    assert token_bounds.bound(make_tokenizer()) == Bound(8)


def test_added_tokens_count_by_their_bytes() -> None:
    assert token_bounds.bound(make_tokenizer("<|漢字|>")) == Bound(10)


def test_a_normaliser_that_shortens_text_widens_the_bound() -> None:
    tokenizer = make_tokenizer()
    tokenizer.normalizer = normalizers.NFC()
    assert token_bounds.bound(tokenizer) == Bound(32)


def lowercase(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Lowercase()


def strip(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Strip()])


def drop_spaces(tokenizer: tokenizers.Tokenizer) -> None:
    removing = pre_tokenizers.Split(" ", "removed")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([removing, pre_tokenizers.ByteLevel()])


def by_spaces(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def add_greedy_token(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.add_tokens([AddedToken("<mask>", lstrip=True)])


def know_few_bytes_of_nfc(tokenizer: tokenizers.Tokenizer) -> None:
    tokenizer.model = models.BPE(vocab={"a": 0}, merges=[])
    tokenizer.normalizer = normalizers.NFC()


@pytest.mark.parametrize(
    "change", [lowercase, strip, drop_spaces, by_spaces, add_greedy_token, know_few_bytes_of_nfc]
)
def test_nothing_is_sure_of_a_tokenizer_that_may_drop_text(change: Change) -> None:
    tokenizer = make_tokenizer()
    change(tokenizer)
    assert token_bounds.bound(tokenizer) is None


@hypothesis.given(
    st.text(st.sampled_from("hello world  <é\u0301\u1100\u1161\u11a8\u212a漢\U0001f642"), max_size=200)
)
def test_the_bound_never_says_more_than_there_is(text: str) -> None:
    for normalizer in (None, normalizers.NFC()):
        tokenizer = make_tokenizer("<|end|>")
        if normalizer:
            tokenizer.normalizer = normalizer
        bound = token_bounds.bound(tokenizer)
        assert bound is not None
        assert bound.at_least(text) <= len(tokenizer.encode(text))


def test_bytes_that_the_tokenizer_passes_over_prove_nothing() -> None:
    tokenizer = make_tokenizer()
    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet())) if c not in "\u0104\u0120"}
    tokenizer.model = models.BPE(vocab=alphabet, merges=[])
    text = "\x04 a " * 10
    bound = token_bounds.bound(tokenizer)
    assert bound == Bound(1, b"\x04 ")
    assert bound.at_least(text) == len(tokenizer.encode(text)) == 10
