"""The dashboard's views: who may see and do what."""

import json
import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from inference import fleet, lifecycle
from inference.broker import Broker
from inference.models import Job, ServedModel
from inference.states import FailureReason
from tests import factories
from tests.integration import dashboard_pages
from tests.integration.dashboard_pages import BOARD, HOME, HTMX, SUBMIT, browser_of, form, make_user

pytest_plugins = ["tests.integration.api_fixtures"]

no_broadcast, member = dashboard_pages.no_broadcast, dashboard_pages.member


def test_the_front_door_is_the_dashboard(client: Client) -> None:
    assert client.get("/").headers["Location"] == HOME


@pytest.mark.parametrize("path", [HOME, BOARD, f"/dashboard/jobs/{uuid.uuid4()}/"])
def test_who_is_not_logged_in_is_sent_to_the_login_and_back(sluice: Broker, client: Client, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 302
    assert answer.headers["Location"] == f"/login/?next={path.replace('/', '%2F')}"


def test_a_part_of_the_page_sends_the_whole_page_to_the_login(sluice: Broker, client: Client) -> None:
    answer = client.get(BOARD, headers=HTMX)

    assert answer.headers["HX-Redirect"] == "/login/?next=%2Fdashboard%2F"
    assert answer.content == b""


def test_a_login_never_leads_elsewhere(sluice: Broker, client: Client) -> None:
    make_user("ada", password="correct horse")
    said = {"username": "ada", "password": "correct horse", "next": "https://evil.example/"}

    assert client.post("/login/", said).headers["Location"] == HOME


def test_an_address_of_a_part_of_the_page_leads_to_the_page(sluice: Broker, member: Client) -> None:
    job = factories.make_job()
    assert member.get(f"/dashboard/jobs/{job.id}/").headers["Location"] == f"{HOME}?job={job.id}"


def test_the_model_that_an_admin_made_the_default_is_chosen_at_first(sluice: Broker, member: Client) -> None:
    ServedModel.objects.create(name="a-first-by-name", source="x")
    shown = member.get(HOME).content.decode()
    assert f'<option value="{factories.MODEL}" selected>' in shown


def test_one_without_a_tenant_is_told_whom_to_ask(sluice: Broker) -> None:
    answer = browser_of(make_user("new")).get(HOME)

    assert answer.status_code == 403
    assert "User new belongs to no tenant yet: ask an admin" in answer.content.decode()
    assert "/admin/" not in answer.content.decode()


def test_one_without_a_tenant_who_may_use_the_admin_is_led_back_to_it(sluice: Broker) -> None:
    shown = browser_of(make_user("viewer", is_staff=True)).get(HOME).content.decode()
    main = shown[shown.index("<main") :]
    assert '<a href="/admin/">To the admin</a>' in main


def test_operators_without_a_membership_work_for_the_default_tenant_and_viewers_for_none(sluice: Broker) -> None:
    job = factories.make_job()
    operator, viewer = (make_user(role, is_staff=True) for role in ("operator", "viewer"))
    for user in (operator, viewer):
        user.groups.add(Group.objects.get(name=user.username))

    assert str(job.id) in browser_of(operator).get(HOME).content.decode()
    assert browser_of(viewer).get(HOME).status_code == 403


def test_a_prompt_becomes_a_streamed_job_of_the_users_tenant(member: Client) -> None:
    answer = member.post(SUBMIT, form(tier="realtime"), headers=HTMX)
    job = Job.objects.get()

    assert answer.status_code == 200
    assert (job.tenant_id, job.tier_id, job.streamed, job.api_key_id) == ("acme", "realtime", True, None)
    assert reverse("dashboard:stream", args=[job.id]) in answer.content.decode()
    assert answer.headers["HX-Replace-Url"] == f"/dashboard/?job={job.id}"


def test_what_is_left_empty_is_left_to_the_model(member: Client) -> None:
    member.post(SUBMIT, form(max_tokens="", temperature=""), headers=HTMX)

    assert not {"max_tokens", "temperature"} & json.loads(Job.objects.get().request).keys()


def test_a_temperature_is_passed_on(member: Client) -> None:
    member.post(SUBMIT, form(temperature="0"), headers=HTMX)

    assert json.loads(Job.objects.get().request)["temperature"] == 0


def test_a_user_sees_only_the_jobs_of_their_tenant(member: Client) -> None:
    ours, theirs = factories.make_job(tenant="acme"), factories.make_job()
    shown = member.get(HOME).content.decode()

    assert str(ours.id) in shown
    assert str(theirs.id) not in shown
    part = f"/dashboard/jobs/{theirs.id}/"
    for path in (part, f"{part}facts/", f"{HOME}?job={theirs.id}", f"{HOME}?job=none"):
        assert member.get(path, follow=True).status_code == 404, path


def test_a_user_cancels_only_the_jobs_of_their_tenant(member: Client) -> None:
    ours, theirs = factories.make_job(tenant="acme"), factories.make_job()
    answers = [member.post(f"/dashboard/jobs/{job.id}/cancel/", headers=HTMX) for job in (ours, theirs)]

    assert [answer.status_code for answer in answers] == [200, 404]
    assert {job.id: job.status for job in Job.objects.all()} == {ours.id: "cancelled", theirs.id: "queued"}


def test_a_user_retries_what_ended_badly_and_only_for_their_tenant(member: Client, sluice: Broker) -> None:
    (ours, token), (theirs, _) = factories.make_running_job(tenant="acme"), factories.make_running_job()
    message = "The engine crashed 3 times while it ran this job."
    lifecycle.apply([lifecycle.Fail(token, FailureReason.ENGINE_CRASH, message)])
    shown = member.get(f"/dashboard/jobs/{ours.id}/", headers=HTMX).content.decode()
    assert message in shown
    assert f"/dashboard/jobs/{ours.id}/retry/" in shown

    answers = [member.post(f"/dashboard/jobs/{job.id}/retry/", headers=HTMX) for job in (ours, theirs)]

    assert [answer.status_code for answer in answers] == [200, 404]
    assert answers[0].headers["HX-Trigger"] == "board"
    assert "queued" in answers[0].content.decode()
    assert {job.id: job.status for job in Job.objects.all()} == {ours.id: "queued", theirs.id: "running"}
    assert sluice.held([ours.id])


def test_an_expired_job_says_once_what_became_of_it(member: Client) -> None:
    long_ago = timezone.now() - timedelta(hours=1)
    fleet.report(factories.make_report(ready_at=long_ago, started_at=long_ago))  # else no deadline passes
    job = factories.make_job(tenant="acme", created_at=long_ago)
    assert lifecycle.apply([lifecycle.Expire(job.id)])[0].moved
    shown = member.get(f"/dashboard/jobs/{job.id}/", headers=HTMX).content.decode()

    assert shown.count('class="alert"') == 1
    assert "Not started by its start deadline. Retry it, or submit it again in another tier." in shown


def test_what_lives_or_succeeded_offers_no_retry(member: Client) -> None:
    (done, token), waiting = factories.make_running_job(tenant="acme"), factories.make_job(tenant="acme")
    lifecycle.apply([factories.make_success(token)])

    for job in (done, waiting):
        assert "/retry/" not in member.get(f"/dashboard/jobs/{job.id}/", headers=HTMX).content.decode()
        assert member.post(f"/dashboard/jobs/{job.id}/retry/", headers=HTMX).status_code == 409


def test_markup_is_text_on_the_page_and_no_inline_script_may_run(member: Client) -> None:
    hostile = "</textarea><script>alert(1)</script><img src=x onerror=alert(1)>"
    member.post(SUBMIT, form(prompt=hostile), headers=HTMX)
    answer = member.get(f"{HOME}?job={Job.objects.get().id}")

    assert "<script>alert" not in answer.content.decode()
    assert "<img src=x" not in answer.content.decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in answer.content.decode()
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'self';")
    assert answer.headers["Cache-Control"] == "no-store"
