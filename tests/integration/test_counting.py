"""While a long prompt is counted the web process goes on: told by the order of events, not by a clock."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest

from inference import executor, tokens
from inference.models import ServedModel
from tests import factories, tokenizers_for_tests, waiting
from tests.integration.api_server import Api

pytest_plugins = ["tests.integration.api_fixtures"]
pytestmark = pytest.mark.once

CHAT = "/v1/chat/completions"
ASYNC = {"Prefer": "respond-async"}
LONG = "word " * 100_000
"""A token a word, and far more bytes than a short request may have."""


@dataclass
class Counting:
    """The tokenisation of long prompts, which stands still in its middle until it may go on."""

    may_go_on: threading.Event = field(default_factory=threading.Event)
    begun: list[int] = field(default_factory=list)

    def step(self) -> None:
        """What the tokenizer does in the middle of each text; of a short prompt, nothing."""
        if threading.current_thread().name.startswith("api-large"):
            self.begun.append(1)
            assert self.may_go_on.wait(waiting.PATIENCE_SECONDS)


@pytest.fixture
def counting(api: Api) -> Counting:
    ServedModel.objects.update(max_model_len=131_072)
    counter = tokens.counter(factories.make_model_limits())
    assert isinstance(counter, tokens.ExactCounter)
    counting = Counting()
    tokenizers_for_tests.hook(counter, counting.step)
    return counting


@pytest.mark.parametrize("at_once", [1, executor.LARGE_AT_ONCE])
def test_others_are_answered_before_the_count_of_100_000_tokens_ends(
    api: Api, counting: Counting, at_once: int
) -> None:
    def submit_long() -> httpx.Response:
        return api.post(CHAT, factories.make_chat(LONG), headers=ASYNC)

    with ThreadPoolExecutor(at_once) as clients:
        long = [clients.submit(submit_long) for _ in range(at_once)]
        waiting.until(lambda: len(counting.begun) == min(at_once, executor.LARGE_THREADS))

        short = [api.post(CHAT, factories.make_chat("one"), headers=ASYNC) for _ in range(3 * executor.THREADS)]
        assert api.get("/v1/models").status_code == 200
        assert not any(answer.done() for answer in long)

        counting.may_go_on.set()
        answers = [answer.result() for answer in long]

    assert {answer.status_code for answer in (*short, *answers)} == {202}
    assert {answer.json()["prompt_tokens"] for answer in answers} == {100_002}
