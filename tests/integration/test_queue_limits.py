"""Every queue has a row of limits, and a look at the list makes none."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import OperationalError
from django.db.models import Model
from django.test import Client

from inference import queue_limits, snapshot, tasks
from inference.broker import Broker
from inference.models import LengthClass, QueueLimit, ServedModel, Tier
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import fields_of, url

page = admin_pages.page

QUEUE = f"{factories.MODEL}.bulk.long"


def names() -> set[str]:
    return set(QueueLimit.objects.values_list("queue", flat=True))


@pytest.mark.parametrize("is_viewer", [False, True])
def test_a_look_at_the_list_writes_nothing(page: Client, *, is_viewer: bool) -> None:
    if is_viewer:
        viewer = User.objects.create_user("vera", is_staff=True)
        viewer.groups.add(Group.objects.get(name="viewer"))
        page.force_login(viewer)
    assert page.get(url(QueueLimit, "changelist")).status_code == 200
    assert names() == set()


def test_the_control_worker_makes_the_rows_that_are_missing_and_leaves_the_others(sluice: Broker) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=7)
    tasks.reconcile()
    assert names() == set(snapshot.limits().queues())
    assert [*QueueLimit.objects.filter(max_jobs__isnull=False).values_list("queue", "max_jobs")] == [(QUEUE, 7)]


def test_two_processes_at_once_do_no_harm(sluice: Broker) -> None:
    snapshot.limits()  # read before the other process has made them, and young enough to go by
    queues = [QueueLimit(queue=name) for name in snapshot.limits().queues()]
    QueueLimit.objects.bulk_create(queues)
    queue_limits.complete(max_age_seconds=60)
    assert len(names()) == len(queues)


@pytest.mark.parametrize(
    ("model", "row", "queue"),
    [
        (Tier, {"name": "night"}, f"{factories.MODEL}.night.short"),
        (LengthClass, {"name": "huge", "max_prompt_tokens": 9000}, f"{factories.MODEL}.bulk.huge"),
        (ServedModel, {"name": "other", "source": "other"}, "other.bulk.short"),
    ],
)
def test_what_is_saved_gives_its_queues_their_rows_at_once(
    page: Client, model: type[Model], row: dict[str, Any], queue: str
) -> None:
    queue_limits.complete()
    answer = page.post(url(model, "add"), fields_of(model(**row)))
    assert answer.status_code == 302, answer.content.decode()
    assert queue in names()
    assert queue.split(".")[1] in page.get(url(QueueLimit, "changelist")).content.decode()


def test_what_is_saved_stays_saved_where_the_rows_cannot_be_made(
    page: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> int:
        raise OperationalError("database is locked")

    monkeypatch.setattr(queue_limits, "complete", fail)
    assert page.post(url(Tier, "add"), fields_of(Tier(name="night"))).status_code == 302
    assert Tier.objects.filter(name="night").exists()
