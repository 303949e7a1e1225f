"""The dashboard's views: who may see what, what is refused and how it is said."""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import django.db
import httpx
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from inference import broker as broker_module
from inference import control, executor, halts, lifecycle, selectors, submission
from inference.broker import Broker
from inference.models import Job, Membership, QueueLimit
from inference.states import FailureReason
from tests import factories
from tests.integration.api_server import Api, Hand

pytest_plugins = ["tests.integration.api_fixtures"]

HOME = "/dashboard/"
BOARD = "/dashboard/board/"
SUBMIT = "/dashboard/jobs/"
HTMX = {"HX-Request": "true"}
QUEUE = f"{factories.MODEL}.standard.short"


@pytest.fixture(autouse=True)
def no_broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "abort", lambda *_: None)


def make_user(name: str, *, tenant: str | None = None, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)
    if tenant:
        Membership.objects.create(user=user, tenant_id=tenant)
    return user


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def member(sluice: Broker, tokenizer: Path) -> Client:
    """The browser of one who works for the tenant acme."""
    factories.make_tenant("acme", weight=5)
    return browser_of(make_user("ada", tenant="acme"))


def form(**fields: str) -> dict[str, str]:
    return {"prompt": "Hello", "model": factories.MODEL, "tier": "standard", "max_tokens": "8"} | fields


@pytest.fixture
def without_redis(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Broker(broker_module.connect("redis://127.0.0.1:1/0"), prefix=sluice.prefix)
    monkeypatch.setattr(broker_module, "_brokers", {os.getpid(): away})


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


def test_one_without_a_tenant_is_told_whom_to_ask(sluice: Broker) -> None:
    answer = browser_of(make_user("new")).get(HOME)

    assert answer.status_code == 403
    assert "User new belongs to no tenant yet: ask an admin" in answer.content.decode()


def test_staff_without_a_membership_work_for_the_default_tenant(sluice: Broker) -> None:
    job = factories.make_job()
    shown = browser_of(make_user("op", is_staff=True)).get(HOME).content.decode()

    assert str(job.id) in shown


def test_a_prompt_becomes_a_streamed_job_of_the_users_tenant(member: Client) -> None:
    answer = member.post(SUBMIT, form(tier="realtime"), headers=HTMX)
    job = Job.objects.get()

    assert answer.status_code == 200
    assert (job.tenant_id, job.tier_id, job.streamed, job.api_key_id) == ("acme", "realtime", True, None)
    assert reverse("dashboard:stream", args=[job.id]) in answer.content.decode()
    assert answer.headers["HX-Replace-Url"] == f"/dashboard/?job={job.id}"


def test_an_empty_number_of_tokens_lets_the_model_end(member: Client) -> None:
    member.post(SUBMIT, form(max_tokens=""), headers=HTMX)

    assert "max_tokens" not in Job.objects.get().request


def test_a_user_sees_only_the_jobs_of_their_tenant(member: Client) -> None:
    ours, theirs = factories.make_job(tenant="acme"), factories.make_job()
    shown = member.get(HOME).content.decode()

    assert str(ours.id) in shown
    assert str(theirs.id) not in shown
    for path in (f"/dashboard/jobs/{theirs.id}/", f"{HOME}?job={theirs.id}", f"{HOME}?job=none"):
        assert member.get(path).status_code == 404, path


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


def test_what_lives_or_succeeded_offers_no_retry(member: Client) -> None:
    (done, token), waiting = factories.make_running_job(tenant="acme"), factories.make_job(tenant="acme")
    lifecycle.apply([factories.make_success(token)])

    for job in (done, waiting):
        assert "/retry/" not in member.get(f"/dashboard/jobs/{job.id}/", headers=HTMX).content.decode()
        assert member.post(f"/dashboard/jobs/{job.id}/retry/", headers=HTMX).status_code == 409


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"prompt": ""}, "This field is required."),
        ({"prompt": "a\0b"}, "Null characters are not allowed."),
        ({"max_tokens": "0"}, "greater than or equal to 1"),
        ({"max_tokens": "9000"}, "max_tokens is 9000 and the prompt has 3 tokens"),
        ({"tier": "gold"}, "gold is not one of the available choices."),
        ({"model": "gpt"}, "gpt is not one of the available choices."),
        ({"prompt": "word " * 9000}, "but model smollm2-135m-instruct takes at most 8192"),
    ],
    ids=["empty", "null", "too-few", "too-many", "tier", "model", "too-long"],
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
    assert f"queue {QUEUE} takes at most 0 waiting jobs" in answer.content.decode()
    assert f"Try again in {answer.headers['Retry-After']} s." in answer.content.decode()


def test_without_redis_nothing_is_accepted_and_it_is_said(member: Client, without_redis: None) -> None:
    answer = member.post(SUBMIT, form(), headers=HTMX)

    assert answer.status_code == 503
    assert "The queue cannot be reached; nothing was accepted. Try again." in answer.content.decode()
    assert Job.objects.count() == 0


@pytest.mark.parametrize("path", [HOME, BOARD])
def test_without_redis_jobs_and_workers_are_still_shown(member: Client, without_redis: None, path: str) -> None:
    job = factories.make_job(tenant="acme")
    answer = member.get(path)

    assert answer.status_code == 200
    assert "The queues cannot be shown: Redis does not answer." in answer.content.decode()
    assert str(job.id) in answer.content.decode()


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


def test_the_board_says_why_jobs_and_queues_wait(member: Client) -> None:
    member.post(SUBMIT, form())
    board = member.get(BOARD).content.decode()
    assert board.count('title="no worker serves queue') == 2  # the job's, and its queue's
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    board = member.get(BOARD).content.decode()
    assert f'title="queue {QUEUE} is paused"' in board
    assert '<span class="why"><span class="chip paused">paused</span>' in board
    assert "ann" not in board


def test_the_board_tells_who_paused_to_those_who_may(sluice: Broker, tokenizer: Path) -> None:
    operator = make_user("op", is_staff=True)
    browser_of(operator).post(SUBMIT, form())
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    assert "user ann" not in browser_of(operator).get(BOARD).content.decode()
    operator.user_permissions.set(
        Permission.objects.filter(codename__in=["change_queuelimit", "change_workerlimit"])
    )
    board = browser_of(operator).get(BOARD).content.decode()
    assert '<span class="why" title="by user ann"><span class="chip paused">paused</span>' in board
    assert f'title="queue {QUEUE} is paused by user ann"' in board


def test_the_board_asks_the_database_little(member: Client, django_assert_max_num_queries: Any) -> None:
    for _ in range(30):
        factories.make_job(tenant="acme")
    with django_assert_max_num_queries(14):
        member.get(BOARD)


def session_of(user: User) -> dict[str, str]:
    """The cookie of one who logged in."""
    return {
        "Cookie": f"{settings.SESSION_COOKIE_NAME}={browser_of(user).cookies[settings.SESSION_COOKIE_NAME].value}"
    }


@pytest.fixture
def ada(api: Api) -> Iterator[httpx.Client]:
    """A browser with a session, of one who works for the default tenant."""
    with httpx.Client(
        base_url=api.url, headers=session_of(make_user("ada", tenant="default")), timeout=30
    ) as client:
        yield client


def submitted(api: Api, **fields: Any) -> str:
    body = factories.make_chat(stream=True, **fields)
    return str(api.post("/api/v1/jobs/", {"body": body}).json()["id"])


def test_a_session_follows_a_job_to_its_end(api: Api, ada: httpx.Client, echo: None) -> None:
    answer = ada.get(f"/dashboard/streams/{submitted(api, content='one two')}/")

    assert answer.headers["content-type"] == "text/event-stream"
    assert "one " in answer.text
    assert '"state":"succeeded"' in answer.text


def test_nobody_follows_without_a_session_or_another_tenants_job(api: Api, ada: httpx.Client) -> None:
    path = f"/dashboard/streams/{submitted(api)}/"
    factories.make_tenant("acme")
    other = session_of(make_user("eve", tenant="acme"))
    none = session_of(make_user("new"))

    assert httpx.get(api.url + path).status_code == 401
    assert httpx.get(api.url + path, headers={"Cookie": "sessionid=forged"}).status_code == 401
    assert httpx.get(api.url + path, headers=none).status_code == 403
    assert ada.get(path, headers=other).status_code == 404


def test_an_open_stream_holds_no_thread(api: Api, ada: httpx.Client, hand: Hand) -> None:
    path = f"/dashboard/streams/{submitted(api)}/"
    threads = threading.active_count()
    with ExitStack() as streams:
        for _ in range(5 * executor.THREADS):
            streams.enter_context(ada.stream("GET", path))

        # The pool makes its threads when it likes, but no more than these.
        assert threading.active_count() <= threads + executor.THREADS
