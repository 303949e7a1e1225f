"""What an admin can see and do: lists, jobs, keys and people."""

import re

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from inference import lifecycle
from inference.models import ApiKey, Job
from tests import factories
from tests.integration import admin_pages
from tests.integration.admin_pages import act, url

page = admin_pages.page

MODELS = list(apps.get_app_config("inference").get_models())
READ_ONLY = {"usage", "edit", "job", "jobevent", "worker", "workerlimit"}


def test_every_model_is_registered_and_the_librarys_own_key_is_not() -> None:
    ours = {model for model in admin.site._registry if model._meta.app_label == "inference"}

    assert ours == set(MODELS)
    assert not [m for m in admin.site._registry if m._meta.app_label == "rest_framework_api_key"]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_list_opens(page: Client, model: type[Model]) -> None:
    factories.make_running_job()
    factories.make_key()

    assert page.get(url(model, "changelist")).status_code == 200


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_what_the_software_writes_cannot_be_added(page: Client, model: type[Model]) -> None:
    forbidden = model._meta.model_name in READ_ONLY

    assert page.get(url(model, "add")).status_code == (403 if forbidden else 200)


def test_a_job_is_shown_with_its_history_and_cannot_be_changed(page: Client) -> None:
    job, token = factories.make_running_job()
    shown = page.get(url(Job, "change", job.id)).content.decode()

    assert str(token.claim_id) in shown
    assert "running" in shown
    page.post(url(Job, "change", job.id), {"status": "succeeded"})
    job.refresh_from_db()
    assert job.status == "running"


def test_a_job_is_found_by_its_id(page: Client) -> None:
    job, other = factories.make_job(), factories.make_job()
    shown = page.get(url(Job, "changelist"), {"q": str(job.id)}).content.decode()

    assert str(job.id) in shown
    assert str(other.id) not in shown


def test_chosen_jobs_are_cancelled_and_retried(page: Client) -> None:
    queued = factories.make_job()
    running, _ = factories.make_running_job()

    assert "Jobs: 2 cancelled" in act(page, Job, "cancel", queued.pk, running.pk)
    assert {job.status for job in Job.objects.all()} == {"cancelled"}
    assert "is queued" in act(page, Job, "retry", queued.pk)
    assert Job.objects.get(id=queued.id).status == "queued"


def test_a_retry_that_cannot_be_is_told(page: Client) -> None:
    assert "can be retried" in act(page, Job, "retry", factories.make_job().pk)


def test_an_action_on_many_jobs_tells_in_a_line_how_they_are_and_of_a_few_why_not(page: Client) -> None:
    queued = [factories.make_job() for _ in range(5)]
    act(page, Job, "cancel", queued[0].pk)
    told = act(page, Job, "retry", *[job.pk for job in queued])
    assert f"{queued[0].pk} is queued" in told
    assert told.count("can be retried") == 3
    assert "1 more was refused." in told
    assert "Jobs: 5 cancelled" in act(page, Job, "cancel", *[job.pk for job in queued])


def test_one_who_may_only_look_cannot_cancel(page: Client) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_job"))
    page.force_login(viewer)
    job = factories.make_job()
    act(page, Job, "cancel", job.pk)

    assert Job.objects.get(id=job.id).status == "queued"


def test_a_new_key_is_shown_once_and_only_its_hash_is_kept(page: Client) -> None:
    data = {"name": "ci", "tenant": "default", "tiers": ["bulk"], "revoked": ""}
    shown = page.post(url(ApiKey, "add"), data, follow=True).content.decode()
    found = re.search(r"sk-\w{8}\.\w{40}", shown)

    assert found is not None
    row = ApiKey.objects.get()
    assert row.is_valid(found[0])
    assert found[0] not in row.hashed_key
    assert [tier.name for tier in row.tiers.all()] == ["bulk"]
    assert found[0] not in page.get(url(ApiKey, "changelist"), follow=True).content.decode()


def test_a_finished_job_shows_its_estimate_and_what_it_used(page: Client) -> None:
    job, token = factories.make_running_job(prompt_tokens=500, expected_tokens=100, estimate_seconds=11.0)
    open_page = page.get(url(Job, "change", job.pk)).content.decode()
    lifecycle.apply([factories.make_success(token, output_tokens=20)])
    ended_page = page.get(url(Job, "change", job.pk)).content.decode()
    assert ">11 s</div>" in open_page
    assert ">3.0 s</div>" not in open_page
    assert ">3.0 s</div>" in ended_page


def test_a_chosen_key_is_revoked(page: Client) -> None:
    row, key = factories.make_key()

    assert "1 revoked" in act(page, ApiKey, "revoke", row.pk)
    assert not ApiKey.objects.is_valid(key)


def test_what_is_no_job_id_finds_nothing_and_is_told(page: Client) -> None:
    job = factories.make_job()
    shown = page.get(url(Job, "changelist"), {"q": "hello <b>"}).content.decode()

    assert "is no job id" in shown
    assert str(job.id) not in shown
    assert "hello <b>" not in shown


def test_a_job_is_shown_with_its_prompt_and_answer_as_text(page: Client) -> None:
    job, token = factories.make_running_job(request='{"messages": [{"role": "user", "content": "<i>Hello</i>"}]}')
    result = '{"choices": [{"message": {"content": "<script>alert(1)</script>"}}]}'
    lifecycle.apply([factories.make_success(token, result=result)])
    shown = page.get(url(Job, "change", job.id)).content.decode()

    assert "&lt;i&gt;Hello&lt;/i&gt;" in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script>alert(1)" not in shown


def test_a_user_is_given_a_tenant_on_their_own_page(page: Client) -> None:
    factories.make_tenant("acme")
    data = {
        "username": "ada",
        "password1": "a-long-password",
        "password2": "a-long-password",
        "usable_password": "true",
        "membership-TOTAL_FORMS": "1",
        "membership-INITIAL_FORMS": "0",
        "membership-0-tenant": "acme",
    }
    page.post(reverse("admin:auth_user_add"), data)

    assert User.objects.get(username="ada").membership.tenant_id == "acme"
    assert "acme" in page.get(reverse("admin:auth_user_changelist")).content.decode()


def test_the_admin_bears_the_products_name_and_leads_to_the_dashboard(page: Client) -> None:
    shown = page.get(reverse("admin:index")).content.decode()

    assert "Sluice administration" in shown
    assert reverse("dashboard:home") in shown


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_that_people_set_is_on_its_page(model: type[Model]) -> None:
    fieldsets = admin.site._registry[model].fieldsets
    if fieldsets is None or model._meta.model_name in READ_ONLY:
        return
    shown = set(flatten_fieldsets(fieldsets))
    fields = [*model._meta.concrete_fields, *model._meta.many_to_many]
    assert {field.name for field in fields if field.editable} <= shown
