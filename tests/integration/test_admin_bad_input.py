"""What no page of ours would send to the admin is refused in words, and changes nothing."""

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import CharField, JSONField, Model
from django.test import Client
from django.urls import reverse

from inference.admin.forms import JsonField, WordsField
from inference.models import Budget, Edit, Job, ServedModel, Tier
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import fields_of, url

page = admin_pages.page

NO_KEYS = ["zz", "9" * 30, "-" + "9" * 30, "1" * 5000, ""]
"""Of no table whose key is an id or a number: no such text, beyond 64 bits, beyond what Python reads."""
DEEP = "[" * 100_000
TABLES = [model for model in admin.site._registry if not isinstance(model._meta.pk, CharField)]
"""Whose keys are no text."""


def address(model: type[Model], name: str, *args: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{name}", args=args)


@pytest.mark.parametrize("action", ["cancel", "retry", "change_tier"])
@pytest.mark.parametrize("chosen", NO_KEYS)
def test_an_action_on_what_is_no_job_id_says_so_and_does_nothing(page: Client, action: str, chosen: str) -> None:
    job = factories.make_job()
    data = {"action": action, "_selected_action": [job.pk, chosen], "_confirmed": "yes", "tier": "bulk"}
    told = page.post(url(Job, "changelist"), data, follow=True).content.decode()

    assert "is no job id: nothing was done." in told
    job.refresh_from_db()
    assert (job.status, job.tier_id) == ("queued", "standard")


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_no_list_fails_on_a_key_that_no_row_can_have(page: Client, model: type[Model]) -> None:
    answers = [
        page.post(address(model, "changelist"), {"action": "delete_selected", "_selected_action": [key]})
        for key in NO_KEYS
    ]
    assert {answer.status_code for answer in answers} <= {200, 302, 403}


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_no_page_fails_on_a_key_that_no_row_can_have(page: Client, model: type[Model]) -> None:
    key = model._meta.pk.name
    lists = [page.get(address(model, "changelist"), {f"{key}__exact": wrong}) for wrong in NO_KEYS]
    rows = [page.get(address(model, name, wrong)) for wrong in NO_KEYS if wrong for name in ("change", "history")]
    assert {answer.status_code for answer in lists + rows} <= {200, 302, 400}


@pytest.mark.parametrize("wrong", NO_KEYS)
def test_a_list_of_fields_with_a_key_that_no_row_can_have_saves_nothing(page: Client, wrong: str) -> None:
    budget = Budget.objects.create(tenant_id="default", monthly=5)
    data = {"form-TOTAL_FORMS": "1", "form-INITIAL_FORMS": "1", "form-0-id": wrong, "form-0-monthly": "7"}
    assert page.post(url(Budget, "changelist"), data | {"_save": "Save"}).status_code in {200, 302}
    budget.refresh_from_db()
    assert budget.monthly == 5


def test_the_revert_of_an_edit_beyond_all_numbers_is_not_found(page: Client) -> None:
    factories.make_tenant("acme")
    path = "/admin/inference/tenant/acme/history/{}/revert/"
    assert [page.post(path.format(number)).status_code for number in ("9" * 30, "7")] == [404, 404]
    assert not Edit.objects.exists()


def test_every_list_that_people_type_is_read_by_a_field_that_bears_anything() -> None:
    """In each form of each table: Django's own fails on JSON that is too deep, or has too long a number."""
    root = User(is_superuser=True)
    for model, found in admin.site._registry.items():
        typed = {f.name for f in model._meta.concrete_fields if isinstance(f, JSONField) and f.editable}
        request = type("Request", (), {"user": root, "GET": {}})()
        if not typed or not found.has_add_permission(request):
            continue
        form = found.get_form(request)
        assert all(isinstance(form.base_fields[name], JsonField | WordsField) for name in typed), model


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (DEEP, "Enter a valid JSON."),
        (f"[{'1' * 5000}]", "Enter a valid JSON."),
        ("[" * 2000 + "]" * 2000, 'name="engine_args"'),
        ('{"a":' * 3000 + "1" + "}" * 3000, 'name="engine_args"'),
        ('{"a":' * 100 + "1" + "}" * 100, "at most 64 levels deep"),
        ('"text"', "must be a list of strings"),
        ("5", "must be a list of strings"),
        ('{"--port": "1"}', "must be a list of strings"),
        ('["--seed", 0]', "must be a list of strings"),
        ('["\\ud800"]', "without NUL characters or lone surrogates"),
        ('["\\u0000"]', "without NUL characters or lone surrogates"),
        ('["--port=1"]', "--port is set by the worker"),
        ('["--seed", "0", "--host", "0.0.0.0"]', "--host is set by the worker"),
        ('["--served_model_name=x"]', "--served_model_name is set by the worker"),
        ('["--uds=/x"]', "--uds is set by the worker"),
        ('["--api-key", "x"]', "--api-key is set by the worker"),
        ('["--model=x"]', "--model is set by the worker"),
        ('["--root_path=/x"]', "--root_path is set by the worker"),
        ('["--ssl-keyfile=x"]', "--ssl-keyfile is set by the worker"),
        ('["--ssl_certfile", "x"]', "--ssl_certfile is set by the worker"),
        ('["--por=1"]', "--por is set by the worker"),
    ],
    ids=range(21),
)
def test_arguments_that_no_engine_can_start_with_are_refused_at_their_field(
    page: Client, typed: str, told: str
) -> None:
    fields = fields_of(ServedModel.objects.all()[0], name="another", is_default="", engine_args=typed)
    answer = page.post(url(ServedModel, "add"), fields | {"initial-engine_args": DEEP})

    assert told in answer.content.decode()
    assert not ServedModel.objects.filter(name="another").exists()


@pytest.mark.parametrize(
    "typed", ['["--seed", "0"]', '["--model-impl=auto"]', '["--hf-overrides", "{}"]', '["-O0"]', ""]
)
def test_arguments_that_leave_the_worker_its_own_are_taken(page: Client, typed: str) -> None:
    fields = fields_of(ServedModel.objects.all()[0], name="another", is_default="", engine_args=typed)
    assert page.post(url(ServedModel, "add"), fields).status_code == 302


def test_a_request_to_the_name_of_another_host_is_a_line_in_the_log(
    page: Client, caplog: pytest.LogCaptureFixture
) -> None:
    assert page.get("/login/", headers={"Host": "evil.example"}).status_code == 400
    told = [record for record in caplog.records if record.name == "django.security.DisallowedHost"]
    assert [(record.levelname, record.exc_info) for record in told] == [("WARNING", None)]


@pytest.mark.parametrize("typed", [DEEP, "a\0b", "\0"])
def test_words_that_cannot_be_stored_are_refused(page: Client, typed: str) -> None:
    bulk = Tier.objects.get(name="bulk")
    answer = page.post(url(Tier, "change", "bulk"), fields_of(bulk, service_tiers=typed, position="1"))
    bulk.refresh_from_db()

    assert answer.status_code in {200, 302, 400}
    assert "\0" not in "".join(bulk.service_tiers)
