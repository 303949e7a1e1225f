"""A cancel by remote control, while what it needs is away."""

import uuid

import pytest
from django.db import OperationalError

from inference import lifecycle, submission
from inference.broker import Broker, Token
from tests import factories
from tests.integration import dashboard_pages
from workers import controls

no_broadcast = dashboard_pages.no_broadcast


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controls, "PAUSES_SECONDS", (0.0,) * 4)


class Cancels:
    """Stands for `submission.cancel`: fails so many times, then works."""

    def __init__(self, error: Exception, failures: int) -> None:
        self.error, self.failures, self.calls = error, failures, 0

    def __call__(self, **_: object) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error


def cancel(monkeypatch: pytest.MonkeyPatch, error: Exception, failures: int) -> int:
    """How often a cancel was tried."""
    cancels = Cancels(error, failures)
    monkeypatch.setattr(submission, "cancel", cancels)
    controls._cancel_row(None, controls.Target(uuid.uuid4()))
    return cancels.calls


def test_a_database_that_is_away_is_asked_again(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cancel(monkeypatch, OperationalError("away"), failures=2) == 3


def test_it_is_given_up_and_said_when_it_stays_away(
    database: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert cancel(monkeypatch, OperationalError("away"), failures=99) == len(controls.PAUSES_SECONDS) + 1
    assert caplog.records[-1].__dict__["action"] == "cancel_lost"


def test_an_error_of_ours_is_said_and_not_repeated(
    database: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert cancel(monkeypatch, ValueError("a bug"), failures=99) == 1
    assert caplog.records[-1].__dict__["action"] == "cancel_failed"


def test_a_revoke_that_names_a_run_leaves_the_next_run_of_the_job_alone(
    sluice: Broker, no_broadcast: None
) -> None:
    job = factories.make_job()
    first, second = Token(job.id, uuid.uuid4()), Token(job.id, uuid.uuid4())
    target = controls.Target.parse(first.tag)
    assert not target.is_past(), "claimed, and not begun"
    lifecycle.apply([lifecycle.Start(first, "worker-1")])
    assert not target.is_past()
    controls._cancel_row(None, target)
    lifecycle.apply([lifecycle.Retry(job.id)])
    controls._cancel_row(None, target)
    lifecycle.apply([lifecycle.Start(second, "worker-1")])
    controls._cancel_row(None, target)
    job.refresh_from_db()
    assert (job.status, job.claim_id) == ("running", second.claim_id)
