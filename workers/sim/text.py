"""What the simulated model says: words drawn by seed and prompt, and one known fact. Pure, deterministic."""

import random
from typing import Final

from workers.sim.config import SimConfig

_WORDS: Final = (
    "a", "about", "after", "all", "and", "are", "as", "at", "back", "be", "because", "but", "by", "can", "come",
    "day", "do", "even", "find", "first", "for", "from", "get", "give", "go", "good", "have", "her", "here", "him",
    "how", "if", "in", "into", "it", "its", "just", "know", "like", "look", "make", "many", "more", "new", "no",
    "not", "now", "of", "on", "one", "only", "or", "other", "our", "out", "over", "people", "say", "see", "so",
    "some", "take", "than", "that", "the", "their", "them", "then", "there", "these", "they", "thing", "think",
    "this", "those", "time", "to", "two", "up", "use", "very", "want", "way", "we", "well", "what", "when",
    "which", "who", "will", "with", "work", "would", "year", "you", "your",
)  # fmt: skip
_SHORTEST: Final = 16
_LONGEST: Final = 256
_BYTES_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 4


def count_tokens(text: str, *, messages: int = 0) -> int:
    """Guess a prompt's tokens from its size: about right for English, and needs no tokenizer."""
    return max(1, len(text.encode()) // _BYTES_PER_TOKEN + messages * _TOKENS_PER_MESSAGE)


def answer(config: SimConfig, prompt: str, *, at_most: int, at_least: int = 0) -> list[str]:
    """Draw the reply's tokens: of a natural length, 16 to 256, within `at_least` and `at_most`."""
    draw = random.Random(f"{config.seed}\n{prompt}")  # noqa: S311 (repeatable on purpose)
    if config.fact_answer and config.fact_question in prompt:
        words = config.fact_answer.split()
    else:
        words = draw.choices(_WORDS, k=min(draw.randint(_SHORTEST, _LONGEST), at_most))
    words += draw.choices(_WORDS, k=max(0, at_least - len(words)))
    return [words[0], *(f" {word}" for word in words[1:at_most])]
