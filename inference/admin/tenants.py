"""Tenants and their API keys."""

import functools
from datetime import datetime
from typing import Any, Final

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from rest_framework_api_key.admin import APIKeyModelAdmin
from rest_framework_api_key.models import APIKey
from unfold.decorators import display

from inference import consequences, edits, halts, publication, selectors
from inference.admin import confirming
from inference.admin.base import LimitAdmin
from inference.admin.forms import LimitForm, TenantForm
from inference.admin.halts import by
from inference.admin.readonly import KeptName
from inference.models import ApiKey, Tenant
from inference.templatetags import shown

admin.site.unregister(APIKey)  # the library's own table: keys here have a tenant

REVOKED, EXPIRED, OPERATOR, IN_USE = "revoked", "expired", "operator", "in use"
STATES: Final = {REVOKED: "danger", EXPIRED: "warning", OPERATOR: "info", IN_USE: "success"}
"""A key's states in the list, and their colours."""


@admin.register(Tenant)
class TenantAdmin(KeptName, LimitAdmin):
    """Tenants."""

    form = TenantForm
    list_display = (
        *("name", "weight", "requests_per_minute", "tokens_per_minute", "max_queued_jobs", "max_unfinished_jobs"),
        *("queued", "unfinished", "active_keys", "people"),
    )
    list_editable = (
        "weight",
        "requests_per_minute",
        "tokens_per_minute",
        "max_queued_jobs",
        "max_unfinished_jobs",
    )
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        """Return tenants with the counts of their columns."""
        active = Count("api_keys", filter=Q(api_keys__revoked=False), distinct=True)
        people = Count("memberships", distinct=True)
        tenants: QuerySet[Tenant] = super().get_queryset(request).annotate(active_keys=active, people=people)
        return tenants

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Put the numbers of jobs on the rows, read once a page."""
        page: Any = super().get_changelist_instance(request)
        found = selectors.unfinished_by("tenant")
        for tenant in page.result_list:
            tenant.jobs_now = found.get(tenant.pk, selectors.NO_JOBS)
        return page

    @admin.display(description="waiting")
    def queued(self, tenant: Any) -> str:
        """Return how many of its jobs wait."""
        return shown.count(tenant.jobs_now.queued)

    @admin.display(description="waiting or running")
    def unfinished(self, tenant: Any) -> str:
        """Return how many of its jobs wait or run."""
        return shown.count(tenant.jobs_now.unfinished)

    @admin.display(description="keys in use")
    def active_keys(self, tenant: Any) -> int:
        """Return how many keys are not revoked."""
        return int(tenant.active_keys)  # annotated

    @admin.display(description="users")
    def people(self, tenant: Any) -> int:
        """Return how many users work for it."""
        return int(tenant.people)  # annotated

    def consequences(self, request: HttpRequest, before: Any, after: Any, changed: set[str]) -> list[str]:  # noqa: ARG002
        """Return what lower caps of a tenant do."""
        now = selectors.unfinished_by("tenant").get(after.pk, selectors.NO_JOBS) if changed else selectors.NO_JOBS
        return consequences.of_tenant(before, after, queued=now.queued, unfinished=now.unfinished)

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save, and let the claim know the weight at once."""
        super().save_model(request, obj, form, change)
        transaction.on_commit(functools.partial(publication.announce_weight, obj.name, obj.weight))


@admin.register(ApiKey)
class ApiKeyAdmin(LimitAdmin, APIKeyModelAdmin):
    """Keys; a new one is shown once, in the message after saving."""

    form = LimitForm
    list_display = (  # type: ignore[assignment]  # a tuple of six there
        *("prefix", "name", "state", "tenant", "may_use", "rates", "created", "ends"),
    )
    list_filter = ("revoked", "is_operator", "tenant", "created")  # type: ignore[assignment]
    filter_horizontal = ("tiers",)
    actions = ("revoke",)
    fieldsets = (
        (
            None,
            {
                "description": "The key is shown once, after saving. Only its hash is kept: one that is lost is "
                "revoked, and another one made.",
                "fields": ("prefix", "name", "tenant", "tiers", "is_operator"),
            },
        ),
        (
            "How much is taken",
            {
                "description": "Beside the limits of its tenant. Fails closed: without Redis nothing is taken.",
                "fields": ("requests_per_second", "requests_per_minute", "tokens_per_minute"),
            },
        ),
        ("End", {"fields": ("expiry_date", "revoked")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return keys with their tiers."""
        return super().get_queryset(request).prefetch_related("tiers")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Fix what ended, and `is_operator` for users who may not halt: no key may do more than who made it."""
        others = (*super().get_readonly_fields(request, obj),)
        return others if request.user.has_perms(halts.PERMISSIONS) else (*others, "is_operator")

    def save_model(self, request: HttpRequest, obj: Any, form: Any = None, change: bool = False) -> None:  # noqa: FBT001, FBT002 - Django's
        """Save; a new key is told now or never."""
        key = "" if change else ApiKey.objects.assign_key(obj)
        super().save_model(request, obj, form, change)
        if key:
            told = "This is the key of {}, shown this once: <code>{}</code> Copy it now; only its hash is kept."
            messages.warning(request, format_html(told, obj.name, key))

    def consequences(self, request: HttpRequest, before: Any, after: Any, changed: set[str]) -> list[str]:  # noqa: ARG002
        """Return what lower limits of a key do, or its end."""
        unfinished = (
            selectors.unfinished_by("api_key").get(after.pk, selectors.NO_JOBS).unfinished if changed else 0
        )
        return consequences.of_key(before, after, unfinished=unfinished)

    @display(description="state", label=STATES)
    def state(self, key: ApiKey) -> str:
        """Return whether it works, and whether it may halt queues and workers."""
        return REVOKED if key.revoked else EXPIRED if key.has_expired else OPERATOR if key.is_operator else IN_USE

    @admin.display(description="per second, per minute")
    def rates(self, key: ApiKey) -> str:
        """Return its limits on requests and tokens."""
        second, minute, tokens = key.requests_per_second, key.requests_per_minute, key.tokens_per_minute
        words = [
            f"{shown.count(limit)} {what}"
            for limit, what in ((second, "a second"), (minute, "a minute"), (tokens, "tokens a minute"))
            if limit is not None
        ]
        return ", ".join(words) or shown.NONE

    @admin.display(description="tiers")
    def may_use(self, key: ApiKey) -> str:
        """Return the tiers that the key may use."""
        return ", ".join(tier.name for tier in key.tiers.all()) or "all"

    @admin.display(description="expires", ordering="expiry_date")
    def ends(self, key: ApiKey) -> datetime | None:
        """Return when it stops working by itself."""
        return key.expiry_date

    @admin.action(description="Revoke, for ever", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> HttpResponse | None:
        """End the chosen keys, once their user knows which jobs they sent are left."""
        keys = list(queryset.filter(revoked=False))
        if keys and not confirming.is_confirmed(request):
            left = selectors.unfinished_by("api_key")
            told = [consequences.revoked(key, left.get(key.pk, selectors.NO_JOBS).unfinished) for key in keys]
            return self.ask(request, told)
        for key in keys:
            _revoke(key, by=by(request))
        self.message_user(request, f"{len(keys)} revoked; they stop working within a second.", messages.SUCCESS)
        return None


def _revoke(key: ApiKey, *, by: str) -> None:
    with transaction.atomic():
        row = edits.stored(key)
        before = edits.values_of(row)
        row.revoked = True
        row.save(update_fields=["revoked"])
        edits.record(row, before, edits.values_of(row), by=by)
