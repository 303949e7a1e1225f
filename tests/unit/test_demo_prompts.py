"""The demo's prompts are what they are said to be."""

import json
from collections import Counter

from examples.demo import prompts


def test_the_file_is_in_openais_batch_format() -> None:
    for line in prompts.FILE.read_text().splitlines():
        entry = json.loads(line)
        assert set(entry) == {"custom_id", "method", "url", "body"}
        assert entry["method"] == "POST"
        assert entry["url"] in {"/v1/chat/completions", "/v1/completions"}


def test_names_are_unique() -> None:
    names = [prompt.name for prompt in prompts.read()]
    assert len(names) == len(set(names)) == 24


def test_all_tiers_are_asked_for() -> None:
    assert set(Counter(prompt.service_tier for prompt in prompts.read())) == {"priority", "default", "flex"}


def test_answers_are_short() -> None:
    assert all(16 <= prompt.body["max_tokens"] <= 48 for prompt in prompts.read())
