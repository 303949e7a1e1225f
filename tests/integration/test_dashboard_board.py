"""The board: why jobs and queues wait, and what it costs."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from inference import halts, snapshot
from inference.broker import Broker
from inference.dashboard import views
from inference.models import Job, ServedModel
from tests import factories
from tests.integration import dashboard_pages
from tests.integration.dashboard_pages import BOARD, HOME, HTMX, QUEUE, SUBMIT, browser_of, form, make_user

pytest_plugins = ["tests.integration.api_fixtures"]

no_broadcast, member = dashboard_pages.no_broadcast, dashboard_pages.member


@pytest.mark.parametrize("path", [HOME, BOARD])
def test_without_redis_jobs_and_workers_are_still_shown(member: Client, without_redis: None, path: str) -> None:
    job = factories.make_job(tenant="acme")
    answer = member.get(path)

    assert answer.status_code == 200
    assert "The queues cannot be shown: Redis does not answer." in answer.content.decode()
    assert str(job.id) in answer.content.decode()


def test_the_board_says_why_jobs_and_queues_wait(member: Client) -> None:
    member.post(SUBMIT, form())
    board = member.get(BOARD).content.decode()
    assert board.count('title="no worker serves queue') == 2  # the job's, and its queue's
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="user ann")
    board = member.get(BOARD).content.decode()
    assert f'title="queue {QUEUE} is paused"' in board
    assert '<span class="why"><span class="chip paused">paused</span>' in board
    assert "ann" not in board


def test_an_opened_job_says_why_it_waits_and_asks_on_until_it_is_over(member: Client) -> None:
    member.post(SUBMIT, form())
    job = Job.objects.get()
    part = f"/dashboard/jobs/{job.id}/"
    for path in (part, f"{part}facts/", f"{HOME}?job={job.id}"):
        shown = member.get(path, headers=HTMX).content.decode()
        assert "<b>no worker</b>" in shown, path
        assert "· starts" not in shown, "nobody can tell when"
        assert f"no worker serves queue {QUEUE}" in shown, path
        assert f'hx-get="{part}facts/" hx-trigger="board from:body"' in shown, path

    member.post(f"{part}cancel/", headers=HTMX)
    over = member.get(f"{part}facts/", headers=HTMX).content.decode()
    assert "cancelled" in over
    for word in ("facts/", "no worker", "Cancel"):
        assert word not in over


def test_how_a_job_stands_is_told_without_its_long_texts(
    member: Client, django_assert_max_num_queries: Any
) -> None:
    job = factories.make_job(tenant="acme")
    with django_assert_max_num_queries(14) as asked:
        member.get(f"/dashboard/jobs/{job.id}/facts/", headers=HTMX)
    of_jobs = [query["sql"] for query in asked.captured_queries if '"inference_job"."status"' in query["sql"]]
    assert of_jobs
    assert not any('"inference_job"."request"' in sql for sql in of_jobs)


def test_the_board_tells_who_paused_to_those_who_may(sluice: Broker, tokenizer: Path) -> None:
    operator = make_user("op", tenant="default", is_staff=True)
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
    with django_assert_max_num_queries(17):
        member.get(BOARD)


def test_a_jobs_model_is_named_where_there_are_several(member: Client) -> None:
    factories.make_job(tenant="acme")
    assert "of-model" not in member.get(BOARD).content.decode()
    ServedModel.objects.create(name="another", source="another", max_model_len=2_048)
    snapshot.forget()
    assert f'<span class="of-model">{factories.MODEL}</span>' in member.get(BOARD).content.decode()


def test_the_age_of_the_oldest_has_one_name_and_says_what_it_is(member: Client) -> None:
    named = re.findall(r'<(\w+)[^>]* title="Age of the oldest[^"]*">([^<]*)<', member.get(BOARD).content.decode())
    assert named == [("dt", "Backlog seconds"), ("th", "Backlog seconds")]


def test_older_jobs_follow_page_by_page_and_a_refresh_stays_on_its_page(member: Client) -> None:
    jobs = [str(factories.make_job(tenant="acme").id) for _ in range(2 * views.JOBS_SHOWN + 1)][::-1]
    shown: list[str] = []
    before = ""
    for size in (views.JOBS_SHOWN, views.JOBS_SHOWN, 1):
        board = member.get(f"{BOARD}?before={before}", headers=HTMX).content.decode()
        assert f'name="before" value="{before}"' in board
        assert (">Newest jobs<" in board, ">Older jobs<" in board) == (bool(before), size > 1)
        found = re.findall(r'id="open-([^"]+)"', board)
        assert len(found) == size
        shown += found
        before = found[-1]
    assert shown == jobs

    cancelled = member.post(f"/dashboard/jobs/{jobs[-1]}/cancel/", {"before": jobs[-2]}, headers=HTMX)
    assert re.findall(r'id="open-([^"]+)"', cancelled.content.decode()) == jobs[-1:]
