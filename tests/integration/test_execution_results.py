"""What an engine says is stored, whatever it says and though the database may be away."""

import json

import pytest
from django.db import OperationalError

from inference import group_commit, lifecycle, texts
from inference.models import JobEvent
from inference.states import FailureReason, JobEventKind, JobStatus
from tests.integration import hosts
from tests.integration.hosts import Hosted, chunk, row
from workers import execution
from workers.engine import EngineCall, EngineRefused
from workers.outcomes import Completed, Failed

hosted = hosts.hosted
DONE = b"data: [DONE]\n\n"


def test_an_answer_of_what_no_database_holds_is_mended_and_stored(hosted: Hosted) -> None:
    # Half of a pair, as an engine sends it that cuts its output between the two: not to be had in UTF-8.
    hosted.engine.pieces = hosted.engine.says(chunk("a\0 \ud83d", "st\0op"), DONE)
    claimed = hosted.submit(streamed=True)
    assert isinstance(hosted.end(), Completed)
    choice = json.loads(row(claimed).result)["choices"][0]
    assert choice["message"]["content"] == "a\0 \ufffd"
    assert (row(claimed).status, row(claimed).finish_reason) == (JobStatus.SUCCEEDED, "st\ufffdop")


async def _half_a_pair(_call: EngineCall) -> bytes:
    return rb"""{"choices": [{"text": "\ud83d \u0000", "finish_reason": "a reason longer than its column is"}],
        "usage": {"prompt_tokens": 99999999999, "completion_tokens": -3}}"""


def test_a_plain_answer_is_mended_likewise(hosted: Hosted) -> None:
    hosted.engine.reply = _half_a_pair
    claimed = hosted.submit(prompt_tokens=10)
    assert isinstance(hosted.end(), Completed)
    job = row(claimed)
    assert json.loads(job.result)["choices"][0]["text"] == "\ufffd \0"
    assert job.finish_reason == "a reason longer than its column "
    assert (job.prompt_tokens, job.output_tokens) == (10, None)


def test_the_engines_refusal_is_stored_whatever_it_says(hosted: Hosted) -> None:
    said = rb'{"error": {"message": "no \u0000 and \udc00"}}'
    hosted.engine.reply = hosted.engine.raises(EngineRefused(400, said))
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).error_message == "no \ufffd and \ufffd"


def test_an_answer_that_the_database_refuses_all_the_same_fails_the_job_at_once(
    hosted: Hosted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "sound", lambda text: text)
    hosted.engine.pieces = hosted.engine.says(chunk("\ud83d", "stop"), DONE)
    claimed = hosted.submit(streamed=True)
    assert hosted.end() == Failed(FailureReason.ENGINE_ERROR, "The result could not be stored.")
    assert (row(claimed).status, row(claimed).attempts) == (JobStatus.FAILED, 1)
    assert (hosted.leases, hosted.waiting) == (0, 0)


def test_a_result_outlives_a_database_that_is_away(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "RETRY_SECONDS", ())
    monkeypatch.setattr(execution, "BACKOFF_SECONDS", (0.01, 0.01))
    tries = iter(range(100))

    def apply(changes: list[lifecycle.Change]) -> list[lifecycle.Applied]:
        if isinstance(changes[0], lifecycle.Succeed) and next(tries) < 3:
            raise OperationalError("away")
        return lifecycle.apply(changes)

    hosted.host._around.commits._apply = apply  # type: ignore[union-attr]
    claimed = hosted.submit()
    hosted.end()
    assert row(claimed).status == JobStatus.SUCCEEDED
    assert JobEvent.objects.filter(kind=JobEventKind.RUNNING).count() == 1
