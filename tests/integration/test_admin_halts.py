"""Pause, drain and resume from the admin's lists."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from inference import fleet, halts, queue_limits, snapshot
from inference.models import ApiKey, QueueLimit, Tier, Worker, WorkerLimit
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import act, send, url

page = admin_pages.page

QUEUE = f"{factories.MODEL}.bulk.long"


def test_every_queue_is_in_the_list_and_can_be_paused_there(page: Client) -> None:
    queue_limits.complete()
    shown = page.get(url(QueueLimit, "changelist")).content.decode()
    assert shown.count("action-select") >= len(snapshot.limits().queues()) == 9
    assert f"Paused. {QUEUE}" in act(page, QueueLimit, "pause", QUEUE)
    row = QueueLimit.objects.get(queue=QUEUE)
    assert (row.is_paused, row.halted_by) == (True, "user root")
    assert LogEntry.objects.get(object_id=QUEUE).change_message == "Paused."


def test_the_list_says_whether_who_acted_last_halted_or_resumed_and_when(page: Client) -> None:
    address = url(QueueLimit, "changelist")
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="key ops of acme")
    told = page.get(address).content.decode()
    at = QueueLimit.objects.get(queue=QUEUE).halted_at
    assert re.search(rf"paused by key ops of acme, \d+ s ago \({at:%Y-%m-%d %H:%M:%S} UTC\)", told)

    halts.halt_queues(halts.Action.DRAIN, [QUEUE], by="user ann")
    assert "paused and draining by user ann" in page.get(address).content.decode()
    halts.halt_queues(halts.Action.RESUME, [QUEUE], by="user bob")
    assert "resumed by user bob" in page.get(address).content.decode()


def test_a_resume_ends_a_pause(page: Client) -> None:
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="command")
    act(page, QueueLimit, "resume", QUEUE)
    assert not QueueLimit.objects.get(queue=QUEUE).is_paused


def test_a_worker_is_drained_from_the_registry_and_resumed_when_it_is_gone(page: Client) -> None:
    fleet.report(factories.make_report(name="worker-1"))
    act(page, Worker, "drain", "worker-1")
    assert WorkerLimit.objects.get(worker="worker-1").is_draining
    Worker.objects.all().delete()
    act(page, WorkerLimit, "resume", "worker-1")
    assert not WorkerLimit.objects.get(worker="worker-1").is_halted
    assert {entry.change_message for entry in LogEntry.objects.filter(object_id="worker-1")} == {
        "Drains.",
        "Resumed.",
    }


def form(**changes: Any) -> dict[str, Any]:
    return {"max_jobs": "", "max_in_flight": "", **changes}


def test_a_pause_ticked_in_the_form_is_one_as_any_other(page: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE)
    change = url(QueueLimit, "change", QUEUE)
    send(page, change, form(is_paused="on"))
    row = QueueLimit.objects.get(queue=QUEUE)
    assert (row.is_paused, row.halted_by, row.resumed_at) == (True, "user root", None)
    page.post(change, form(**{"initial-is_paused": "True"}))
    row.refresh_from_db()
    assert row.resumed_at is not None
    assert not row.is_paused


class Inputs(HTMLParser):
    """What a browser would send of a page's form of which nobody touched anything."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._select = ""
        self.feed(shown)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a field in."""
        found = dict(attrs)
        is_off = found.get("type") in {"checkbox", "submit"} and "checked" not in found
        if tag == "input" and found.get("name") and not is_off:
            self.values[str(found["name"])] = found.get("value") or ""
        if tag == "select":
            self._select = found.get("name") or ""
        if tag == "option" and "selected" in found:
            self.values[self._select] = found.get("value") or ""


def test_a_form_that_was_overtaken_ends_no_pause_and_keeps_what_its_user_changed(page: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_in_flight=3)
    change = url(QueueLimit, "change", QUEUE)
    opened = Inputs(page.get(change).content.decode()).values
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="key ops of acme")
    QueueLimit.objects.update(max_in_flight=5)

    page.post(change, opened | {"max_jobs": "7"})
    row = QueueLimit.objects.get(queue=QUEUE)
    assert (row.is_paused, row.halted_by, row.max_jobs, row.max_in_flight) == (True, "key ops of acme", 7, 5)

    send(page, change, opened | {"is_draining": "on"})
    row.refresh_from_db()
    assert (row.is_paused, row.is_draining, row.halted_by, row.resumed_at) == (True, True, "user root", None)


@pytest.mark.parametrize("changed", [True, False])
def test_no_admin_form_writes_what_its_user_did_not_change(page: Client, *, changed: bool) -> None:
    tier = url(Tier, "change", "bulk")
    opened = Inputs(page.get(tier).content.decode()).values
    Tier.objects.filter(name="bulk").update(weight=7, service_tiers=["batch"], uses_reserve=True)

    page.post(tier, opened | ({"max_attempts": "9"} if changed else {}))
    row = Tier.objects.get(name="bulk")
    assert (row.weight, row.service_tiers, row.uses_reserve, row.max_attempts == 9) == (
        7,
        ["batch"],
        True,
        changed,
    )


def test_another_edit_is_no_halt(page: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE)
    page.post(url(QueueLimit, "change", QUEUE), form(max_jobs="7"))
    row = QueueLimit.objects.get(queue=QUEUE)
    assert (row.max_jobs, row.halted_at) == (7, None)


def test_one_who_may_only_look_cannot_pause(page: Client) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(*Permission.objects.filter(codename__in=["view_queuelimit", "view_worker"]))
    page.force_login(viewer)
    fleet.report(factories.make_report(name="worker-1"))
    act(page, QueueLimit, "pause", QUEUE)
    act(page, Worker, "pause", "worker-1")
    assert not QueueLimit.objects.filter(is_paused=True).exists()
    assert not WorkerLimit.objects.exists()


def test_only_one_who_may_halt_makes_an_operators_key(page: Client) -> None:
    data = {"name": "ops", "tenant": "default", "is_operator": "on"}
    add = url(ApiKey, "add")
    page.post(add, data)
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.add(*Permission.objects.filter(codename__in=["add_apikey", "change_apikey"]))
    page.force_login(clerk)
    page.post(add, data)
    assert [*ApiKey.objects.order_by("created").values_list("is_operator", flat=True)] == [True, False]
    page.post(url(ApiKey, "change", ApiKey.objects.latest("created").pk), data)
    assert ApiKey.objects.filter(is_operator=True).count() == 1


def test_one_who_may_only_look_at_keys_revokes_none(page: Client) -> None:
    row, _ = ApiKey.objects.create_key(name="ci", tenant_id="default")
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(
        Permission.objects.get(codename="view_apikey", content_type__app_label="inference")
    )
    page.force_login(viewer)
    act(page, ApiKey, "revoke", row.pk)
    row.refresh_from_db()
    assert not row.revoked
