"""A cancel by remote control, while what it needs is away."""

import uuid

import pytest
from django.db import OperationalError

from inference import submission
from workers import controls


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
    controls._cancel_row(None, uuid.uuid4())
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
