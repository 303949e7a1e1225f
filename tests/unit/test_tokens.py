"""Counting prompt tokens with a model's own files."""

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers, processors

from inference import errors, preparation, tokens
from inference.preparation import Caller
from inference.states import Endpoint
from tests import factories, tokenizers_for_tests


@pytest.fixture
def folder(models_dir: Path) -> Path:
    return tokenizers_for_tests.write(models_dir / factories.MODEL)


def counter() -> tokens.Counter:
    return tokens.counter(factories.make_model_limits())


def test_a_chat_is_counted_with_its_template(folder: Path) -> None:
    assert counter().chat(factories.make_chat("one two three")) == 5
    assert counter().chat(factories.make_chat("one two three", add_generation_prompt=False)) == 4


def test_a_prompt_is_counted_as_it_is(folder: Path) -> None:
    assert counter().text("one two") == 2


def test_many_are_counted_in_their_order(folder: Path) -> None:
    prompts = [tokens.Prompt("word " * n, add_special_tokens=n % 2 == 0) for n in range(1, 6)]

    assert counter().count(prompts) == [1, 2, 3, 4, 5]


def test_special_tokens_are_added_to_completions_only(models_dir: Path) -> None:
    folder = tokenizers_for_tests.write(models_dir / factories.MODEL)
    tokenizer = tokenizers.Tokenizer(models.WordLevel({"?": 0, "<s>": 1}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))

    assert counter().text("one two") == 3
    assert counter().text("one two", add_special_tokens=False) == 2
    assert counter().chat(factories.make_chat("one two")) == 4
    assert counter().chat(factories.make_chat("one two", add_special_tokens=True)) == 5


def test_a_template_may_stand_in_the_config(models_dir: Path) -> None:
    folder = tokenizers_for_tests.write(models_dir / factories.MODEL, template=None)
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "{{ bos_token }} a b"}]
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": named, "bos_token": "<s>"}))

    assert counter().chat(factories.make_chat()) == 3


def test_a_model_without_a_template_takes_no_chat(models_dir: Path) -> None:
    tokenizers_for_tests.write(models_dir / factories.MODEL, template=None)
    with pytest.raises(errors.InvalidRequest) as caught:
        counter().chat(factories.make_chat())

    assert caught.value.param == "messages"
    assert counter().text("one two") == 2


def test_a_chat_that_the_template_refuses_is_the_callers_fault(models_dir: Path) -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    tokenizers_for_tests.write(models_dir / factories.MODEL, template=template)
    with pytest.raises(errors.InvalidRequest) as caught:
        counter().chat(factories.make_chat())

    assert caught.value.message == "messages: roles must alternate"


def test_files_are_loaded_once_until_they_change(folder: Path) -> None:
    first = counter()
    assert counter() is first

    os.utime(folder / "tokenizer.json", (1, 1))
    assert counter() is not first


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_model_without_usable_files_is_unavailable(models_dir: Path, content: str | None) -> None:
    folder = models_dir / factories.MODEL
    if content is not None:
        folder.mkdir()
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(errors.Unavailable) as caught:
        counter()

    assert (caught.value.code, caught.value.status) == ("tokenizer_missing", 503)
    assert factories.MODEL in caught.value.message


def test_an_absolute_path_is_a_source_too(tmp_path: Path) -> None:
    folder = tokenizers_for_tests.write(tmp_path / "elsewhere")

    assert tokens.counter(factories.make_model_limits(source=str(folder))).text("a b") == 2


def test_a_prompt_is_not_shown_in_a_log_line() -> None:
    assert "secret" not in repr(tokens.Prompt("secret", add_special_tokens=True))


def estimate() -> tokens.Counter:
    return tokens.counter(factories.make_model_limits(source="nowhere", estimates_tokens=True))


@pytest.mark.parametrize(("text", "count"), [("", 0), ("word", 1), ("words", 2), ("漢字", 2), ("\ud800", 1)])
def test_a_model_without_files_has_its_tokens_guessed_if_its_row_says_so(
    models_dir: Path, text: str, count: int
) -> None:
    assert estimate().text(text) == count


def test_a_guessed_chat_counts_what_its_messages_and_tools_take(models_dir: Path) -> None:
    short, long = estimate().chat(factories.make_chat("a" * 40)), estimate().chat(factories.make_chat("a" * 4040))
    tools = [{"type": "function", "function": {"name": "f" * 400}}]

    assert 10 < short < 30
    assert long == short + 1000
    assert estimate().chat(factories.make_chat("a" * 40, tools=tools)) > short + 100


def write_bytewise(folder: Path) -> None:
    """One token a byte."""
    tokenizers_for_tests.write(folder)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))


def test_a_texts_size_proves_tokens_where_every_byte_counts(models_dir: Path) -> None:
    write_bytewise(models_dir / factories.MODEL)
    assert counter().at_least(tokens.Prompt("漢" * 1000, add_special_tokens=False)) == 3000


def test_a_texts_size_proves_nothing_where_a_word_may_have_any_length(folder: Path) -> None:
    assert counter().at_least(tokens.Prompt("word " * 1000, add_special_tokens=False)) == 0


def test_batches_do_not_change_the_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "BATCH_CHARACTERS", 12)
    prompts = [tokens.Prompt("word " * n, add_special_tokens=n % 3 == 0) for n in range(1, 9)]

    assert counter().count(prompts) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_long_text_waits_for_another_and_no_short_one_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "BATCH_CHARACTERS", 12)
    found = list[int]()
    long = threading.Thread(target=lambda: found.append(counter().text("word " * 10)))
    with tokens._one_long:
        long.start()
        assert counter().text("word") == 1
        assert found == []
    long.join()
    assert found == [10]


def test_other_threads_run_python_while_texts_are_tokenised(models_dir: Path) -> None:
    """Two texts are tokenised in threads of the library, where a step in Python asks for the GIL.

    If whoever asked for the counts kept it, this step would wait for ever.
    """
    ran_in = set[int]()
    folder = tokenizers_for_tests.write(models_dir / factories.MODEL)
    counting = tokens.ExactCounter(folder)
    tokenizers_for_tests.hook(counting, lambda: ran_in.add(threading.get_ident()))

    assert counting.count([tokens.Prompt("word " * n, add_special_tokens=False) for n in (1, 2)]) == [1, 2]
    assert ran_in
    assert threading.get_ident() not in ran_in


def test_what_is_proven_too_long_is_refused_untokenised(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: object) -> list[int]:
        raise AssertionError("tokenised")

    write_bytewise(models_dir / factories.MODEL)
    monkeypatch.setattr(tokens.ExactCounter, "_count", count)
    limits = factories.make_limits()
    body = factories.make_chat("a" * (limits.models[factories.MODEL].max_model_len + 1))
    with pytest.raises(errors.InvalidRequest) as caught:
        preparation.prepare(
            Caller(tenant="t"),
            [preparation.Submission(endpoint=Endpoint.CHAT, body=body)],
            limits=limits,
            now=datetime.now(UTC),
        )
    assert caught.value.code == "context_length_exceeded"
    assert "has at least 8" in caught.value.message
