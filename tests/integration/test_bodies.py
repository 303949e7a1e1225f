"""Large requests are kept in the storage, go with their jobs, and fail them if they are gone."""

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.utils import timezone

from inference import bodies, errors, lifecycle, submission
from inference.broker import Broker
from inference.dashboard import texts
from inference.models import Job
from inference.states import FailureReason
from tests import factories
from tests.integration import hosts, submitting
from tests.integration.hosts import Hosted, row
from tests.integration.submitting import submit

model_files = submitting.model_files
hosted = hosts.hosted

LARGE = factories.make_chat("word " * 60, max_tokens=1)


@pytest.fixture(autouse=True)
def few_bytes_are_many(settings: Any) -> None:
    settings.BODY_BYTES = 200


def stored() -> list[Path]:
    """Files that there are in the storage."""
    storage: Any = default_storage
    return [path for path in Path(storage.location).rglob("*") if path.is_file()]


@pytest.fixture(autouse=True)
def empty_storage() -> None:
    for path in stored():
        path.unlink()


def test_a_large_request_is_stored_and_a_small_one_is_in_its_row(sluice: Broker) -> None:
    large, small = submit(body=LARGE), submit()
    assert (Job.objects.get(id=large.id).request, len(stored())) == ("", 1)
    assert json.loads(bodies.of(large))["messages"] == LARGE["messages"]
    assert json.loads(Job.objects.get(id=small.id).request)["messages"]
    assert texts.prompt(large) == "word " * 60
    assert stored()[0].stat().st_mode & 0o077 == 0, "nobody else reads prompts"


def test_it_goes_with_its_job(sluice: Broker) -> None:
    submit(body=LARGE).delete()
    assert stored() == []


def test_nothing_is_left_of_one_that_was_not_accepted(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: object) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(lifecycle, "create", fails)
    with pytest.raises(errors.Unavailable):
        submit(body=LARGE)
    assert stored() == []


def test_one_that_cannot_be_stored_is_not_accepted_and_leaves_no_reservation(
    sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(default_storage, "save", full)
    with pytest.raises(errors.Unavailable):
        submission.submit_many(
            caller=factories.make_caller(), items=[factories.make_submission(body=b) for b in (LARGE, LARGE)]
        )
    submitting.assert_nothing_left(sluice)


def test_what_no_job_has_is_removed_once_it_is_old(sluice: Broker) -> None:
    job = submit(body=LARGE)
    bodies.keep(uuid.uuid4(), "{}")
    assert bodies.prune(timezone.now()) == 0, "its row may be on its way"
    assert bodies.prune(timezone.now() + timedelta(hours=2)) == 1
    assert json.loads(bodies.of(job))
    assert len(stored()) == 1


def test_the_engine_gets_a_stored_request(hosted: Hosted) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": "long"}]})
    job = hosted.publish(request="", request_bytes=len(body))
    bodies.keep(job.id, body)
    hosted.run(hosted.claim(job))
    hosted.end()
    assert json.loads(hosted.engine.calls[0].body)["messages"][0]["content"] == "long"


def test_a_job_whose_request_is_gone_fails_and_says_so(hosted: Hosted) -> None:
    claimed = hosted.submit(request="", request_bytes=300)
    hosted.end()
    job = row(claimed)
    assert (job.status, job.error_code) == ("failed", FailureReason.BODY_MISSING)
    assert "cannot be read" in job.error_message
    assert hosted.engine.calls == []
    assert (hosted.leases, hosted.waiting) == (0, 0)
    assert "cannot be read" in texts.prompt(job)
