"""Who changed what from which value to which, and the way back."""

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import Model
from django.test import Client

from inference import edits, fleet, halts, snapshot
from inference.models import ApiKey, Budget, Edit, LengthClass, QueueLimit, ServedModel, Tenant, Tier, Worker
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import act, fields_of, send, url

page = admin_pages.page

QUEUE = f"{factories.MODEL}.bulk.long"


def only_edit(model: type[Model]) -> Edit:
    return Edit.objects.get(table=edits.table_of(model))


def revert(page: Client, row: Model, edit: Edit) -> str:
    shown: str = send(page, url(type(row), "revert", row.pk, edit.pk), {}).content.decode()
    return shown


def test_a_change_is_kept_with_its_author_and_both_values(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    send(page, url(Tier, "change", "bulk"), fields_of(bulk, weight="3", max_in_flight="9", service_tiers="x"))
    edit = only_edit(Tier)

    assert (edit.by, edit.row, edit.kind) == ("user root", "bulk", "changed")
    assert edit.values == {"weight": [1.0, 3.0], "max_in_flight": [None, 9], "service_tiers": [["flex"], ["x"]]}
    shown = page.get(url(Tier, "history", "bulk")).content.decode()
    assert "weight: 1.0 → 3.0" in shown
    assert "user root" in shown
    assert "weight: 1.0 → 3.0" in page.get(url(Edit, "changelist")).content.decode()


def test_a_save_that_changes_nothing_is_no_edit(page: Client) -> None:
    send(page, url(Tier, "change", "bulk"), fields_of(Tier.objects.get(name="bulk"), service_tiers="flex"))
    assert not Edit.objects.exists()


def test_an_edit_in_the_list_is_one_as_any_other(page: Client) -> None:
    rows = list(LengthClass.objects.all())
    data: dict[str, Any] = {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows), "_save": "Save"}
    for i, row in enumerate(rows):
        data |= {f"form-{i}-name": row.pk, f"form-{i}-max_in_flight": "5" if row.pk == "long" else ""}
    send(page, url(LengthClass, "changelist"), data)
    assert only_edit(LengthClass).values == {"max_in_flight": [None, 5]}
    assert snapshot.read().lengths["long"].max_in_flight == 5


def test_a_revert_undoes_one_edit_and_leaves_later_ones(page: Client) -> None:
    QueueLimit.objects.create(queue=QUEUE, max_jobs=20)
    change = url(QueueLimit, "change", QUEUE)
    send(page, change, {"max_jobs": "5", "max_in_flight": ""})
    first = only_edit(QueueLimit)
    send(page, change, {"max_jobs": "5", "max_in_flight": "2"})
    row = QueueLimit.objects.get(queue=QUEUE)

    assert f"Reverted: max jobs of {QUEUE}." in revert(page, row, first)
    row.refresh_from_db()
    assert (row.max_jobs, row.max_in_flight) == (20, 2)
    last = Edit.objects.latest("id")
    assert (last.undoes, last.values) == (first, {"max_jobs": [5, 20]})


def test_a_revert_shows_what_it_sets_and_what_was_set_since(page: Client) -> None:
    row = QueueLimit.objects.create(queue=QUEUE, max_jobs=20)
    change = url(QueueLimit, "change", QUEUE)
    for cap in ("5", "7"):
        send(page, change, {"max_jobs": cap, "max_in_flight": ""})
    first = Edit.objects.earliest("id")
    asked = page.post(url(QueueLimit, "revert", row.pk, first.pk)).content.decode()

    assert "max jobs: 7 → 20 (changed again since that edit)" in asked
    assert QueueLimit.objects.get(queue=QUEUE).max_jobs == 7


@pytest.mark.parametrize("by", ["key ops of acme", "command of ann"])
def test_a_pause_by_api_or_command_is_in_the_history_and_reverted_as_a_resume(page: Client, by: str) -> None:
    [row] = halts.halt_queues(halts.Action.PAUSE, [QUEUE], by=by)
    edit = only_edit(QueueLimit)
    assert (edit.by, edit.values) == (by, {"is_paused": [False, True]})

    revert(page, row, edit)
    row.refresh_from_db()
    assert (row.is_paused, row.halted_by, row.resumed_at is not None) == (False, "user root", True)


def test_a_halted_worker_has_a_history(page: Client) -> None:
    fleet.report(factories.make_report(name="worker-1"))
    halts.halt_workers(halts.Action.DRAIN, ["worker-1"], by="command of ann")
    shown = page.get(url(Worker, "history", "worker-1"), follow=True).content.decode()
    assert "draining: no → yes" in shown
    assert "command of ann" in shown


def test_a_revert_is_checked_as_any_change(page: Client) -> None:
    send(page, url(Tier, "change", "bulk"), fields_of(Tier.objects.get(name="bulk"), service_tiers="x"))
    Tier.objects.filter(name="standard").update(service_tiers=["default", "flex"])
    bulk = Tier.objects.get(name="bulk")

    assert "flex already picks tier standard" in revert(page, bulk, only_edit(Tier))
    bulk.refresh_from_db()
    assert bulk.service_tiers == ["x"]


def test_a_key_has_a_history_without_its_hash_and_a_revocation_is_for_ever(page: Client) -> None:
    row, key = factories.make_key()
    act(page, ApiKey, "revoke", row.pk)
    edit = only_edit(ApiKey)
    assert (edit.row, edit.values) == (row.prefix, {"revoked": [False, True]})
    assert page.post(url(ApiKey, "revert", row.pk, edit.pk)).status_code == 403
    assert not ApiKey.objects.is_valid(key)


def test_a_new_key_and_its_tiers_are_recorded_and_tiers_reverted(page: Client) -> None:
    send(page, url(ApiKey, "add"), {"name": "ci", "tenant": "default", "tiers": ["bulk"]})
    row = ApiKey.objects.get()
    assert only_edit(ApiKey).kind == "created"
    send(page, url(ApiKey, "change", row.pk), {"name": "ci", "tenant": "default", "tiers": ["bulk", "standard"]})
    edit = Edit.objects.latest("id")
    assert edit.values == {"tiers": [["bulk"], ["bulk", "standard"]]}
    revert(page, row, edit)
    assert [tier.name for tier in row.tiers.all()] == ["bulk"]


def test_a_deletion_is_recorded_with_what_was_set(page: Client) -> None:
    tenant = factories.make_tenant("acme", weight=7)
    send(page, url(Tenant, "delete", tenant.pk), {"post": "yes"})
    edit = only_edit(Tenant)
    assert (edit.kind, edit.values["weight"]) == ("deleted", [7.0, None])


def test_a_role_given_is_recorded(page: Client) -> None:
    user = User.objects.create_user("ada", is_staff=True)
    data = {
        "username": "ada",
        "is_active": "on",
        "is_staff": "on",
        "groups": [Group.objects.get(name="viewer").pk],
        "date_joined_0": user.date_joined.strftime("%Y-%m-%d"),
        "date_joined_1": user.date_joined.strftime("%H:%M:%S"),
        "membership-TOTAL_FORMS": "1",
        "membership-INITIAL_FORMS": "0",
        "membership-0-tenant": "default",
    }
    page.post(f"/admin/auth/user/{user.pk}/change/", data)
    edit = Edit.objects.get(table="user")
    assert edit.values["groups"][1] == [str(Group.objects.get(name="viewer").pk)]
    assert "password" not in edit.values
    assert Edit.objects.get(table="membership").values["tenant"] == [None, "default"]
    shown = page.get(url(Edit, "changelist")).content.decode()
    for words in ("user ada</a>", "→ viewer", "membership ada of default</a>", "→ ada"):
        assert words in shown
    User.objects.filter(pk=user.pk).delete()
    assert f"user no. {user.pk}" in page.get(url(Edit, "change", edit.pk)).content.decode()


@pytest.mark.once
def test_a_budget_names_its_key_by_the_prefix_and_stays_whose_it_is(page: Client) -> None:
    row, _ = factories.make_key()
    send(page, url(Budget, "add"), {"tenant": "default", "api_key": row.pk, "monthly": "20"})
    budget = Budget.objects.get()
    assert only_edit(Budget).values["api_key"] == [None, row.prefix]
    send(page, url(Budget, "change", budget.pk), {"tenant": "default", "api_key": "", "monthly": "30"})
    edit = Edit.objects.latest("id")
    assert edit.values == {"monthly": ["20.00", "30.00"]}
    asked = page.post(url(Budget, "revert", budget.pk, edit.pk)).content.decode()
    assert "30.00 → 20.00" in asked
    assert "changed again" not in asked
    revert(page, budget, edit)
    budget.refresh_from_db()
    assert (budget.api_key, budget.monthly) == (row, Decimal(20))


def test_a_model_disabled_is_asked_about_reverted_and_served_again(page: Client) -> None:
    model = ServedModel.objects.get()
    off = fields_of(model) | {"initial-enabled": "True"}
    off.pop("enabled")
    assert "requests get 404" in page.post(url(ServedModel, "change", model.pk), off).content.decode()
    assert snapshot.read().models
    send(page, url(ServedModel, "change", model.pk), off)
    assert not snapshot.read().models
    revert(page, model, only_edit(ServedModel))
    assert snapshot.read().models
