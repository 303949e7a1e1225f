"""Every error has one form, and a status that says whose problem it is."""

import logging
from typing import Any

import django.db
import orjson
import pytest
from django.http import Http404
from rest_framework import exceptions as drf

from inference import broker, errors
from inference.api import errors as api_errors


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (
            errors.InvalidRequest("max_tokens: …", param="max_tokens"),
            400,
            "invalid_request_error",
            "invalid_value",
        ),
        (errors.Unauthenticated("Incorrect API key."), 401, "authentication_error", "invalid_api_key"),
        (errors.Forbidden("tier: …"), 403, "permission_error", "forbidden"),
        (errors.NotFound("model: …"), 404, "invalid_request_error", "not_found"),
        (errors.MethodNotAllowed("…"), 405, "invalid_request_error", "method_not_allowed"),
        (errors.TooLarge("body: …"), 413, "invalid_request_error", "request_too_large"),
        (errors.Rejected("queue: …"), 429, "rate_limit_error", "queue_full"),
        (errors.Unavailable("…"), 503, "server_error", "unavailable"),
        (errors.JobFailed("…", code="run_timeout"), 500, "server_error", "run_timeout"),
        (broker.BrokerAway("refused"), 503, "server_error", "queue_unavailable"),
        (django.db.OperationalError("gone"), 503, "server_error", "database_unavailable"),
        (Http404(), 404, "invalid_request_error", "not_found"),
        (drf.MethodNotAllowed("PUT"), 405, "invalid_request_error", "method_not_allowed"),
        (drf.UnsupportedMediaType("text/plain"), 415, "invalid_request_error", "unsupported_media_type"),
    ],
)
def test_an_error_is_answered_in_openais_envelope(error: Exception, status: int, kind: str, code: str) -> None:
    response = api_errors.response(error)
    said = orjson.loads(response.content)["error"]
    assert response.status_code == status
    assert set(said) == {"message", "type", "param", "code"}
    assert (said["type"], said["code"]) == (kind, code)


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (1.0, "1"), (1.2, "2"), (61.5, "62")])
def test_retry_after_is_whole_seconds_rounded_up(seconds: float, header: str) -> None:
    response = api_errors.response(errors.Rejected("queue: full", retry_after_seconds=seconds))
    assert response["Retry-After"] == header


def test_away_says_when_to_come_back() -> None:
    assert int(api_errors.response(broker.BrokerAway("refused"))["Retry-After"]) >= 1


def test_a_job_that_failed_is_not_to_be_sent_again() -> None:
    assert api_errors.response(errors.JobFailed("…"))["x-should-retry"] == "false"
    assert "x-should-retry" not in api_errors.response(errors.Unavailable("…"))


def test_a_missing_key_is_challenged() -> None:
    assert api_errors.response(errors.Unauthenticated("…"))["WWW-Authenticate"].startswith("Bearer")


def test_what_nobody_expected_is_logged_and_told_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = api_errors.response(ZeroDivisionError("a secret"))
    assert response.status_code == 500
    assert b"secret" not in response.content
    assert caplog.records[0].exc_info is not None


@pytest.mark.parametrize(
    ("detail", "param"),
    [
        ({"tier": ["too long"]}, "tier"),
        ({"jobs": [{}, {"endpoint": ["not a choice"]}]}, "jobs[1].endpoint"),
        ({"jobs": {3: {"body": ["required"]}}}, "jobs[3].body"),
        ({"jobs": {"non_field_errors": ["may not be empty"]}}, "jobs"),
        ({"non_field_errors": ["bad"]}, "body"),
        (["bad"], "body"),
    ],
)
def test_a_serializers_complaint_names_the_field(detail: Any, param: str) -> None:
    error = api_errors.translate(drf.ValidationError(detail))
    assert (error.status, error.param) == (400, param)
    assert error.message.startswith(f"{param}: ")
