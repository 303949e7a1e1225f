"""Roles: a viewer changes nothing, by no form and no crafted request; an operator sets limits and no more."""

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core import serializers
from django.test import Client
from django.urls import reverse

from inference import fleet, halts, queue_limits
from inference.broker import Broker
from inference.models import ApiKey, Edit, Job, Membership, QueueLimit, ServedModel, Tenant, Tier
from tests import factories
from tests.admin_requests import QUEUE, Keys, addresses, bodies
from tests.integration import admin_pages
from tests.integration.admin_pages import act, fields_of, send, url

page = admin_pages.page


def made(role: str) -> User:
    user = User.objects.create_user(role, is_staff=True)
    user.groups.add(Group.objects.get(name=role))
    return user


def keys() -> Keys:
    return {model: [row.pk for row in model._default_manager.all()] for model in admin.site._registry}


def everything() -> list[str]:
    """All rows there are, but for sessions."""
    models = [*apps.get_app_config("inference").get_models(), *apps.get_app_config("auth").get_models()]
    models += apps.get_app_config("admin").get_models()
    rows = [row for model in models for row in model._default_manager.order_by("pk")]
    return [serializers.serialize("json", [row]) for row in rows]


@pytest.fixture
def rows(page: Client) -> None:
    """At least one row of everything, and something that each action could change."""
    key, _ = factories.make_key()
    factories.publish(factories.make_job(api_key_id=key.pk))
    factories.make_running_job()
    fleet.report(factories.make_report())
    queue_limits.complete()
    halts.halt_queues(halts.Action.PAUSE, [QUEUE], by="ann")
    halts.halt_workers(halts.Action.PAUSE, ["worker-1"], by="ann")
    Membership.objects.create(user=User.objects.get(username="root"), tenant_id="default")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages whose templates are not drawn: what they would say takes most of the time, and changes nothing."""
    monkeypatch.setattr("django.template.response.SimpleTemplateResponse.rendered_content", "")


@pytest.mark.once
@pytest.mark.usefixtures("rows", "undrawn")
def test_a_viewer_changes_nothing_at_any_address_by_any_method(page: Client, sluice: Broker) -> None:
    viewer = made("viewer")
    page.force_login(viewer)
    viewer.refresh_from_db()
    before, stats = everything(), sluice.stats([QUEUE])
    there = keys()
    found = addresses(there)
    for model, address in found:
        for body in bodies(model, address, there):
            page.post(address, body)
        for method in (page.put, page.patch, page.delete):
            method(address)
    assert len(found) > 100
    assert everything() == before
    assert sluice.stats([QUEUE]) == stats


@pytest.mark.once
@pytest.mark.usefixtures("rows", "undrawn")
def test_the_same_requests_of_a_superuser_change_much(page: Client) -> None:
    before = set(everything())
    for model in (Tier, QueueLimit, Job, ApiKey, Tenant):
        for body in bodies(model, url(model, "changelist"), keys()):
            page.post(url(model, "changelist"), body)
    assert len(set(everything()) - before) > 10


@pytest.mark.once
def test_a_viewer_sees_limits_jobs_and_history_and_no_people(page: Client) -> None:
    page.force_login(made("viewer"))
    for model in apps.get_app_config("inference").get_models():
        assert page.get(url(model, "changelist")).status_code == 200
    assert page.get(reverse("admin:auth_user_changelist")).status_code == 403
    shown = page.get(url(Tier, "change", "bulk")).content.decode()
    assert 'name="weight"' not in shown
    assert 'name="_save"' not in shown


@pytest.mark.once
def test_an_operator_sets_limits_and_halts(page: Client) -> None:
    page.force_login(made("operator"))
    send(page, url(Tier, "change", "bulk"), fields_of(Tier.objects.get(name="bulk"), weight="3"))
    assert Tier.objects.get(name="bulk").weight == 3
    act(page, QueueLimit, "pause", QUEUE)
    assert QueueLimit.objects.get(queue=QUEUE).halted_by == "user operator"
    assert "is cancelled" in act(page, Job, "cancel", factories.make_job().pk)


@pytest.mark.once
def test_an_operator_makes_no_keys_people_or_engines(page: Client) -> None:
    page.force_login(made("operator"))
    for model in (ApiKey, Tenant, Membership, ServedModel):
        assert page.get(url(model, "add")).status_code == 403
    row, key = factories.make_key()
    act(page, ApiKey, "revoke", row.pk)
    assert ApiKey.objects.is_valid(key)
    served = ServedModel.objects.get()
    sent = fields_of(served, max_in_flight="5", source="/etc", engine_args='["--x"]')
    send(page, url(ServedModel, "change", served.pk), sent)
    served.refresh_from_db()
    assert (served.max_in_flight, served.source, served.engine_args) == (5, factories.MODEL, [])


@pytest.mark.once
def test_a_change_of_engine_fields_is_not_reverted_by_an_operator(page: Client) -> None:
    model = ServedModel.objects.get()
    send(page, url(ServedModel, "change", model.pk), fields_of(model, source="elsewhere"))
    edit = Edit.objects.get(table="servedmodel")
    page.force_login(made("operator"))
    assert "Revert" not in page.get(url(ServedModel, "history", model.pk)).content.decode()
    assert page.post(url(ServedModel, "revert", model.pk, edit.pk), {"_confirmed": "yes"}).status_code == 403


@pytest.mark.parametrize("status", [403, 404])
def test_a_refused_request_is_logged_without_a_traceback(
    page: Client, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    page.force_login(made("viewer"))
    address = "/admin/inference/edit/add/" if status == 403 else "/admin/nowhere/"
    assert page.get(address).status_code == status
    [record] = [record for record in caplog.records if record.name == "django.request"]
    assert (record.levelname, record.exc_info) == ("WARNING", None)
