"""Tenants and their API keys."""

import functools
from typing import Any

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from rest_framework_api_key.admin import APIKeyModelAdmin
from rest_framework_api_key.models import APIKey

from inference import publication
from inference.models import ApiKey, Tenant

admin.site.unregister(APIKey)  # the library's own table: keys here have a tenant


@admin.register(Tenant)
class TenantAdmin(admin.ModelAdmin):
    """Tenants."""

    list_display = ("name", "weight", "created_at")

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save, and let the claim know the weight at once."""
        super().save_model(request, obj, form, change)
        transaction.on_commit(functools.partial(publication.announce_weight, obj.name, obj.weight))


@admin.register(ApiKey)
class ApiKeyAdmin(APIKeyModelAdmin):
    """Keys; a new one is shown once, in the message after saving."""

    list_display = (*APIKeyModelAdmin.list_display, "tenant")  # type: ignore[assignment]  # a tuple of six there
    list_filter = ("created", "tenant")  # type: ignore[assignment]
    filter_horizontal = ("tiers",)
