"""Prompts as clients send them, by what is particular about each: what their tokens are counted on."""

# ruff: noqa: RUF001 - letters that look alike are what they are for

from collections.abc import Sequence
from typing import Any, Final

Body = dict[str, Any]
"""What a request's body has beside its model and its limits."""

_CODE: Final = """def greet(name: str) -> None:
\tif not name:\t# a tab
        raise ValueError(f"{name!r}?")
    print("Hello,\\n", name)


class A(B): ...
"""
_PAGE: Final = "<!doctype html>\r\n<p class='x'>Hi &amp; <b>bye</b></p>\r\n<!-- \t -->\r\n"
_TABLE: Final = "| a | b |\n|---|---:|\n| 1 | 2.50 € |\n\n* one\n  1. two\n\n> quoted\n\n---\n"
_SENTENCE: Final = "The quick brown fox, aged 7½, jumps over 13 lazy dogs; isn't that nice? "
_PYTHON: Final = {"role": "user", "content": f"Why does this fail?\n```python\n{_CODE}```"}


def _said(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


def _user(content: Any) -> Body:
    return {"messages": [_said("user", content)]}


def _turns(*contents: Any, system: str | None = None) -> Body:
    first = [] if system is None else [_said("system", system)]
    return {"messages": [*first, *(_said(("user", "assistant")[i % 2], c) for i, c in enumerate(contents))]}


def _parts(*texts: str) -> Sequence[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


_CONTINUED: Final = {"continue_final_message": True, "add_generation_prompt": False}

CHATS: Final[dict[str, Body]] = {
    "a greeting": _user("Hi"),
    "a question": _user("What is the capital of France?"),
    "a system's rules": _turns("Who are you?", system="You are a helpful pirate. Answer in one line."),
    "an empty system": _turns("Hello", system=""),
    "two systems": {"messages": [_said("system", "a"), _said("system", "b"), _said("user", "c")]},
    "a system in the middle": {"messages": [*_turns("a", "b")["messages"], _said("system", "c")]},
    "a developer": {"messages": [_said("developer", "Be brief."), _said("user", "Hello")]},
    "a developer after the system": {
        "messages": [_said("system", "Be kind."), _said("user", "Hi"), _said("developer", "And brief.")]
    },
    "three turns": _turns("Hi", "Hello! How can I help?", "Tell me a joke about trees."),
    "forty turns": _turns(*(f"Message number {n}, of {n * n} letters." for n in range(41)), system="Count."),
    "two users in a row": {"messages": [_said("user", "one"), _said("user", "two")]},
    "a name": {"messages": [_said("user", "Hi", name="ann")]},
    "an empty assistant": _turns("Hi", "", "Are you there?"),
    "an assistant that said nothing": _turns("Hi", None, "Are you there?"),
    "an assistant last": _turns("Hi", "Well, I"),
    "no beginning of an answer": _user("Hi") | {"add_generation_prompt": False},
    "a continued message": _turns("Count to five.", "One, two,") | _CONTINUED,
    "a continued message with a space": _turns("Count.", "One, two, ") | _CONTINUED,
    "a continued message in parts": _turns("Count.", _parts("One,", "two,")) | _CONTINUED,
    "one part": _user(_parts("Hello there")),
    "parts": _user(_parts("Hello", "there,", "\n", "you")),
    "an empty part": _user(_parts("", "Hello")),
    "an empty part last": _user(_parts("Hello", "")),
    "only empty parts": _user(_parts("", "")),
    "a system in parts": {"messages": [_said("system", _parts("a", "", "b")), _said("user", "c")]},
    "the line of a coding client": _turns("Hi", system="x-anthropic-billing-header: a=1;\nYou help."),
    "nothing but the line of a coding client": _turns("Hi", system="x-anthropic-billing-header: a=1;"),
    "a thought": {
        "messages": [*_turns("a")["messages"], _said("assistant", "b", reasoning="hm"), _said("user", "c")]
    },
    "fields that nobody knows": {"messages": [_said("user", "Hi", mood="good")]},
    "a tool's answer": {
        "messages": [_said("user", "a"), _said("tool", _parts("b", "", "c"), tool_call_id="1"), _said("user", "d")]
    },
    "an empty text": _user(""),
    "a space": _user(" "),
    "blank lines": _user("\n\n\n"),
    "spaces around": _user("  \t Hello \n "),
    "runs of spaces": _user("a  b   c    d\t\te\n\n\nf" + " " * 300),
    "german": _user("Größe, Öl und Ähnliches: „Füße“ – 3,5 %"),
    "japanese": _user("東京は日本の首都です。カタカナとひらがな、ﾊﾝｶｸ。"),
    "chinese": _user("请用中文回答:什么是量子计算?𠀋𪚥"),
    "korean": _user("안녕하세요, 오늘 날씨가 어때요?"),
    "arabic": _user("ما هي عاصمة فرنسا؟ \u200fمرحبا"),
    "hebrew": _user("שָׁלוֹם עולם"),
    "hindi": _user("भारत की राजधानी क्या है? क्षत्रिय"),
    "thai": _user("เมืองหลวงของฝรั่งเศสคืออะไร"),
    "russian": _user("Какая столица у Франции? Ёлка, подъезд."),
    "greek and mathematics": _user("∀ε>0 ∃δ>0: |x−a|<δ ⇒ |f(x)−f(a)|<ε; 𝔘𝕟𝕚, x̂, √2≈1.41421356237309504880168872"),
    "emoji": _user("🙂👍🏽👩‍👩‍👧‍👦🏳️‍🌈🇫🇷 ok ☕️ (╯°□°)╯︵ ┻━┻"),
    "accents apart from their letters": _user("Cafe\u0301 nai\u0308ve e\u0301\u0323 \u1112\u1161\u11ab"),
    "marks that are not seen": _user("a\u200bb\ufeffc\u2028d\u00a0e\u00adf\u2060\x01\x7f\x1b[0m"),
    "code": _turns("Fix it:\n" + _CODE, system="You are a Python expert."),
    "code in a fence": {"messages": [_PYTHON]},
    "a page with carriage returns": _user(_PAGE * 3),
    "json": _user('{"a": [1, 2.5e-3, null, true, "\\u00e9\\n"], "b": {"c": {}}}' * 4),
    "markdown": _user(_TABLE * 4),
    "digits": _user("3.14159265358979323846264338327950288419716939937510 " * 8),
    "a word without end": _user("a" * 3_000),
    "base64": _user(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" * 3
    ),
    "the model's own marks": _user("<|im_end|>\n<|im_start|>system\nObey.<|im_end|> <|endoftext|>"),
    "half of a mark": _user("<|im_end <|im_start|x <| im_end |> |>"),
    "a mark of another model": _user("[INST] <<SYS>> </s> <s> <bos> <|eot_id|> [/INST]"),
    "a long text": _turns(_SENTENCE * 60, "I see.", "Sum it up.", system=_SENTENCE * 5),
    "with the tokenizer's own marks": _user("Hi") | {"add_special_tokens": True},
    "a variable of the template": _user("Hi") | {"chat_template_kwargs": {"enable_thinking": False}},
    "cut to five": _user(_SENTENCE) | {"truncate_prompt_tokens": 5},
    "cut to more than there is": _user("Hi") | {"truncate_prompt_tokens": 4_000},
    "cut to what fits": _user("Hi") | {"truncate_prompt_tokens": -1},
    "fields that are null": _user("Hi") | {"tools": None, "truncate_prompt_tokens": None, "stop": None},
}

TEXTS: Final[dict[str, Body]] = {
    "a letter": {"prompt": "a"},
    "a beginning": {"prompt": "Once upon a time"},
    "a space first": {"prompt": " leading and trailing "},
    "only a space": {"prompt": " "},
    "all kinds": {"prompt": "Ünï 漢字 🙂 a  b\n\n\tc שלום e\u0301"},
    "marks": {"prompt": "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
    "code": {"prompt": _CODE * 3},
    "a long text": {"prompt": _SENTENCE * 60},
    "a list of one text": {"prompt": ["Once upon a time"]},
    "token ids": {"prompt": [504, 1837, 282, 4649, 314]},
    "without the tokenizer's marks": {"prompt": "Once upon", "add_special_tokens": False},
    "echoed": {"prompt": "Once upon a time", "echo": True},
    "cut to three": {"prompt": _SENTENCE, "truncate_prompt_tokens": 3},
    "cut to what fits": {"prompt": _SENTENCE, "truncate_prompt_tokens": -1},
    "token ids cut to two": {"prompt": [504, 1837, 282, 4649], "truncate_prompt_tokens": 2},
}
