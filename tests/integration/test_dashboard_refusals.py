"""What the dashboard refuses or cannot do, and how it is said."""

import uuid

import django.db
import pytest
from django.test import Client

from inference import errors, selectors, submission
from inference.broker import Broker
from inference.dashboard import texts
from inference.models import Job, QueueLimit
from tests import factories
from tests.integration import dashboard_pages
from tests.integration.dashboard_pages import BOARD, HTMX, QUEUE, SUBMIT, form, make_user

pytest_plugins = ["tests.integration.api_fixtures"]

no_broadcast, member = dashboard_pages.no_broadcast, dashboard_pages.member


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prompt": ""}, "This field is required."),
        ({"prompt": "a\0b"}, "Null characters are not allowed."),
        ({"max_tokens": "0"}, "Max tokens 0 is too small: at least 1."),
        ({"max_tokens": "9000"}, "Max tokens is 9000 and the prompt has 3 tokens"),
        ({"tier": "gold"}, "gold is not one of the available choices."),
        ({"model": "gpt"}, "gpt is not one of the available choices."),
        ({"prompt": "word " * 9000}, ">The prompt has "),
        ({"max_tokens": "9" * 80}, "9 is too large: at most 2147483647."),
        ({"temperature": "2.1"}, "Temperature 2.1 is too large: at most 2."),
        ({"temperature": "nan"}, "Enter a number."),
    ],
    ids=["empty", "null", "too-few", "too-many", "tier", "model", "too-long", "huge", "too-hot", "no-number"],
)
def test_bad_input_is_said_at_its_field(member: Client, fields: dict[str, str], told: str) -> None:
    answer = member.post(SUBMIT, form(**fields), headers=HTMX)
    shown = answer.content.decode()

    assert answer.status_code in {400, 422}
    assert told in shown
    assert f'id="id_{next(iter(fields))}_error"' in shown
    assert answer.headers["HX-Retarget"] == "#prompt-form"
    assert Job.objects.count() == 0


def test_a_full_queue_is_said_with_when_to_come_back(member: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=0)
    answer = member.post(SUBMIT, form(), headers=HTMX)

    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert f"Queue {QUEUE} takes at most 0 waiting jobs" in answer.content.decode()
    assert f"1 more asked for. Try again in {answer.headers['Retry-After']} s." in answer.content.decode()


def test_a_refused_retry_is_said_with_when_to_come_back(member: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=0)
    job = factories.make_job(tenant="acme")
    submission.cancel(caller=None, job_id=job.pk)
    answer = member.post(f"/dashboard/jobs/{job.pk}/retry/", headers=HTMX)

    assert f"1 more asked for. Try again in {answer.headers['Retry-After']} s." in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (errors.Rejected("queue q is full", retry_after_seconds=29.2), "Queue q is full. Try again in 30 s."),
        (errors.Rejected("The budget is spent.", retry_after_seconds=None), "The budget is spent."),
        (errors.Unavailable("Nothing was accepted. Try again."), "Nothing was accepted. Try again in 2 s."),
        (errors.Unavailable("Try it. Try again.", retry_after_seconds=None), "Try it. Try again."),
        (errors.NotFound("There is no such job."), "There is no such job."),
    ],
)
def test_an_error_is_sentences_and_says_once_when_to_try_again(error: errors.SluiceError, told: str) -> None:
    assert texts.why(error) == told


def test_without_redis_nothing_is_accepted_and_it_is_said(member: Client, without_redis: None) -> None:
    answer = member.post(SUBMIT, form(), headers=HTMX)

    assert answer.status_code == 503
    assert "The queue cannot be reached; nothing was accepted. Try again in 2 s." in answer.content.decode()
    assert Job.objects.count() == 0


def test_a_database_that_goes_away_is_said(member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise django.db.OperationalError("connection to server at 10.0.0.1 failed")

    monkeypatch.setattr(selectors, "jobs_for", fail)
    answer = member.get(BOARD, headers=HTMX)

    assert answer.status_code == 503
    assert answer.headers["HX-Retarget"] == "#notice"
    assert "The database is not reachable." in answer.content.decode()
    assert "10.0.0.1" not in answer.content.decode()


def test_a_fault_of_ours_is_said_without_detail(member: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(submission, "cancel", fail)
    answer = member.post(f"/dashboard/jobs/{uuid.uuid4()}/cancel/")

    assert answer.status_code == 500
    assert "Internal error." in answer.content.decode()
    assert "secret" not in answer.content.decode()


@pytest.mark.parametrize("path", [SUBMIT, f"/dashboard/jobs/{uuid.uuid4()}/cancel/", "/login/", "/logout/"])
def test_no_other_site_can_post(sluice: Broker, path: str) -> None:
    forger = Client(enforce_csrf_checks=True)
    forger.force_login(make_user("ada", is_staff=True))

    assert forger.post(path, form()).status_code == 403
    assert Job.objects.count() == 0


@pytest.mark.parametrize(
    "path", [SUBMIT, *[f"/dashboard/jobs/{uuid.uuid4()}/{verb}/" for verb in ("cancel", "retry")]]
)
def test_what_changes_something_is_never_a_get(member: Client, path: str) -> None:
    assert member.get(path).status_code == 405
