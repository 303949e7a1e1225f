"""Tenants and their API keys."""

import functools
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from rest_framework_api_key.admin import APIKeyModelAdmin
from rest_framework_api_key.models import APIKey

from inference import halts, publication
from inference.admin.changes import SavesChanges
from inference.admin.readonly import KeptName
from inference.models import ApiKey, Tenant

admin.site.unregister(APIKey)  # the library's own table: keys here have a tenant


@admin.register(Tenant)
class TenantAdmin(SavesChanges, KeptName, admin.ModelAdmin):
    """Tenants."""

    list_display = ("name", "weight", "active_keys", "people", "created_at")
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        """Return tenants with the counts of their columns."""
        active = Count("api_keys", filter=Q(api_keys__revoked=False), distinct=True)
        people = Count("memberships", distinct=True)
        tenants: QuerySet[Tenant] = super().get_queryset(request).annotate(active_keys=active, people=people)
        return tenants

    @admin.display(description="keys in use")
    def active_keys(self, tenant: Tenant) -> int:
        """Return how many keys are not revoked."""
        return int(tenant.active_keys)  # type: ignore[attr-defined]  # annotated

    @admin.display(description="users")
    def people(self, tenant: Tenant) -> int:
        """Return how many users work for it."""
        return int(tenant.people)  # type: ignore[attr-defined]  # annotated

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save, and let the claim know the weight at once."""
        super().save_model(request, obj, form, change)
        transaction.on_commit(functools.partial(publication.announce_weight, obj.name, obj.weight))


@admin.register(ApiKey)
class ApiKeyAdmin(SavesChanges, APIKeyModelAdmin):
    """Keys; a new one is shown once, in the message after saving."""

    list_display = ("prefix", "name", "tenant", "may_use", "is_operator", "created", "expiry_date", "revoked")  # type: ignore[assignment]  # a tuple of six there
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
        ("End", {"fields": ("expiry_date", "revoked")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return keys with their tiers."""
        return super().get_queryset(request).prefetch_related("tiers")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Fix what ended, and `is_operator` for users who may not halt: no key may do more than who made it."""
        others = (*super().get_readonly_fields(request, obj),)
        return others if request.user.has_perms(halts.PERMISSIONS) else (*others, "is_operator")

    def save_model(self, request: HttpRequest, obj: Any, form: Any = None, change: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - Django's
        """Save; a new key is told now or never."""
        if obj.pk:
            super().save_model(request, obj, form, change=True)
            return
        key = ApiKey.objects.assign_key(obj)
        obj.save()
        told = "This is the key of {}, shown this once: <code>{}</code> Copy it now; only its hash is kept."
        messages.warning(request, format_html(told, obj.name, key))

    @admin.display(description="tiers")
    def may_use(self, key: ApiKey) -> str:
        """Return the tiers that the key may use."""
        return ", ".join(tier.name for tier in key.tiers.all()) or "all"

    @admin.action(description="Revoke, for ever", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """End the chosen keys."""
        count = queryset.filter(revoked=False).update(revoked=True)
        self.message_user(request, f"{count} revoked; they stop working within a second.", messages.SUCCESS)
