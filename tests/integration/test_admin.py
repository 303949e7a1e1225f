"""What an admin can see and do."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from inference import control, lifecycle, publication, snapshot
from inference.broker import Broker, BrokerAway, ClaimRequest, Credit
from inference.models import ApiKey, Job, LengthClass, QueueLimit, ServedModel, Tenant, Tier
from tests import factories

MODELS = list(apps.get_app_config("inference").get_models())
READ_ONLY = {"job", "jobevent", "worker", "workerlimit"}


@pytest.fixture
def page(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The site as a superuser sees it."""
    monkeypatch.setattr("django.conf.settings.STORAGES", _plain_static_files())
    monkeypatch.setattr(control, "abort", lambda *_: None)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def _plain_static_files() -> dict[str, Any]:
    return {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


def url(model: type[Model], page: str, *args: Any) -> str:
    return reverse(f"admin:inference_{model._meta.model_name}_{page}", args=args)


def act(client: Client, action: str, *jobs: Job) -> str:
    data = {"action": action, "_selected_action": [str(job.id) for job in jobs]}
    return client.post(url(Job, "changelist"), data, follow=True).content.decode()


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

    assert "is cancelled" in act(page, "cancel", queued, running)
    assert {job.status for job in Job.objects.all()} == {"cancelled"}
    assert "is queued" in act(page, "retry", queued)
    assert Job.objects.get(id=queued.id).status == "queued"


def test_a_retry_that_cannot_be_is_told(page: Client) -> None:
    assert "can be retried" in act(page, "retry", factories.make_job())


def test_one_who_may_only_look_cannot_cancel(page: Client) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_job"))
    page.force_login(viewer)
    job = factories.make_job()
    act(page, "cancel", job)

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


def fields_of(row: Model, **changes: Any) -> dict[str, Any]:
    values = {f.name: f.value_from_object(row) for f in row._meta.concrete_fields}
    texts = {name: "" if value is None else value for name, value in values.items() if value is not False}
    return {
        k: '["a"]' if isinstance(v, list) and v else "[]" if isinstance(v, list) else v for k, v in texts.items()
    } | changes


def test_a_second_default_model_is_refused_with_advice(page: Client) -> None:
    other = ServedModel.objects.create(name="other", source="other")
    shown = page.post(url(ServedModel, "change", "other"), fields_of(other, is_default="on")).content.decode()

    assert "Another model is the default one: untick it there first." in shown


@pytest.mark.parametrize(
    ("model", "changes", "advice"),
    [
        (Tier, {"service_tiers": '"flex"'}, "must be a list of strings"),
        (Tier, {"weight": "0"}, "greater than or equal to 0.001"),
        (Tier, {"service_tiers": "[1]"}, "must be a list of strings"),
        (Tenant, {"weight": "-1"}, "greater than or equal to 0.001"),
    ],
)
def test_a_wrong_value_is_refused_with_advice(
    page: Client, model: type[Model], changes: dict[str, str], advice: str
) -> None:
    row = model._default_manager.all()[0]
    shown = page.post(url(model, "change", row.pk), fields_of(row, **changes)).content.decode()

    assert advice in shown


def test_a_cap_on_what_is_no_queue_is_refused(page: Client) -> None:
    shown = page.post(url(QueueLimit, "add"), {"queue": "standard", "max_jobs": 1}).content.decode()

    assert "There is no queue standard. There are: smollm2-135m-instruct.realtime.short, " in shown


def test_a_value_that_picks_another_tier_is_refused(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    shown = page.post(url(Tier, "change", "bulk"), fields_of(bulk, service_tiers='["auto"]')).content.decode()

    assert "auto already picks tier standard: remove it there first." in shown


def test_an_objective_later_than_the_deadline_is_refused(page: Client) -> None:
    fields = fields_of(Tier.objects.get(name="standard"), target_wait_seconds="301")

    assert "jobs would expire first" in page.post(url(Tier, "change", "standard"), fields).content.decode()


def test_a_step_too_small_for_its_sequences_is_refused(page: Client) -> None:
    fields = fields_of(ServedModel.objects.get(), max_num_batched_tokens="8")
    shown = page.post(url(ServedModel, "change", factories.MODEL), fields).content.decode()

    assert "8 is less than max num seqs, 32" in shown


def test_limits_that_refuse_requests_are_saved_with_a_warning(page: Client) -> None:
    fields = {"max_prompt_tokens": "9000"}
    shown = page.post(url(LengthClass, "change", "long"), fields, follow=True).content.decode()

    assert "No length class is unbounded: long prompts are refused" in shown


def test_the_name_of_a_row_cannot_be_changed_into_another_row(page: Client) -> None:
    fields = fields_of(Tier.objects.get(name="bulk"), name="slow", weight="2")
    page.post(url(Tier, "change", "bulk"), fields)

    assert set(Tier.objects.values_list("name", flat=True)) == {"realtime", "standard", "bulk"}
    assert Tier.objects.get(name="bulk").weight == 2


@pytest.mark.parametrize("model", [Tier, LengthClass, ServedModel, QueueLimit])
def test_lists_of_limits_show_the_backlog_as_it_is(page: Client, model: type[Model]) -> None:
    job = factories.make_job(created_at=timezone.now() - timedelta(seconds=700))
    QueueLimit.objects.create(queue=job.queue, max_jobs=5)
    publication.publish([publication.entry_of(job, tenant_weight=1.0)])
    shown = page.get(url(model, "changelist")).content.decode()

    assert '<td class="field-waiting">1</td>' in shown
    assert '<td class="field-backlog">12 min</td>' in shown


@pytest.mark.parametrize("model", [Tier, LengthClass, ServedModel, QueueLimit])
def test_lists_of_limits_open_without_redis(
    page: Client, model: type[Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.selectors.queue_rows", _away)

    assert page.get(url(model, "changelist")).status_code == 200


def test_a_model_shows_its_measured_rates_in_the_list_and_beside_the_configured_ones(
    page: Client, sluice: Broker
) -> None:
    addresses = [url(ServedModel, "changelist"), url(ServedModel, "change", factories.MODEL)]
    assert all("not yet" in page.get(address).content.decode() for address in addresses)
    factories.measure(sluice, prefill=5000.0, decode=100.0)
    shown = [page.get(address).content.decode() for address in addresses]
    assert all("5,000 in, 100 out (by about 19 calls)" in text for text in shown)


def test_a_finished_job_shows_its_estimate_and_what_it_used(page: Client) -> None:
    job, token = factories.make_running_job(prompt_tokens=500, expected_tokens=100, estimate_seconds=11.0)
    open_page = page.get(url(Job, "change", job.pk)).content.decode()
    lifecycle.apply([factories.make_success(token, output_tokens=20)])
    ended_page = page.get(url(Job, "change", job.pk)).content.decode()
    assert '<div class="readonly">11 s</div>' in open_page
    assert '<div class="readonly">3.0 s</div>' not in open_page
    assert '<div class="readonly">3.0 s</div>' in ended_page


def _away(*_: object) -> None:
    raise BrokerAway


def test_a_chosen_key_is_revoked(page: Client) -> None:
    row, key = factories.make_key()
    data = {"action": "revoke", "_selected_action": [row.pk]}
    shown = page.post(url(ApiKey, "changelist"), data, follow=True).content.decode()

    assert "1 revoked" in shown
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


def test_a_tiers_new_weight_is_live_once_the_cache_is_over(page: Client) -> None:
    bulk = Tier.objects.get(name="bulk")
    assert page.post(url(Tier, "change", "bulk"), fields_of(bulk, weight="55")).status_code == 302

    assert snapshot.read().tiers["bulk"].weight == 55


def test_a_tenants_new_weight_decides_the_next_claim(page: Client, sluice: Broker) -> None:
    tenant = factories.make_tenant("acme")
    jobs = [factories.make_job(tenant=name) for name in ("default", "acme") for _ in range(4)]
    publication.publish([publication.entry_of(job, tenant_weight=1.0) for job in jobs])
    assert page.post(url(Tenant, "change", "acme"), fields_of(tenant, weight="1000")).status_code == 302

    credit = Credit(sequences=4, kv_tokens=10_000)
    claimed = sluice.claim(ClaimRequest((jobs[0].queue,), credit, limit=4, worker="w", lease_seconds=60)).jobs
    assert [c.tenant for c in claimed] == ["acme"] * 4
