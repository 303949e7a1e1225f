"""Who logs in, and for which tenant."""

from typing import ClassVar

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User

from inference.models import Membership

admin.site.unregister(User)


class MembershipInline(admin.TabularInline):
    """A user's tenant, on the user's page."""

    model = Membership
    verbose_name_plural = "tenant"
    can_delete = True


@admin.register(User)
class PersonAdmin(UserAdmin):
    """Users as Django has them, with their tenant."""

    list_display = ("username", "tenant", "is_staff", "is_active", "last_login")
    list_select_related = ("membership",)
    inlines: ClassVar = [MembershipInline]

    @admin.display(description="tenant")
    def tenant(self, user: User) -> str | None:
        """Return the tenant whose jobs the user sees."""
        return user.membership.tenant_id if hasattr(user, "membership") else None


@admin.register(Membership)
class MembershipAdmin(admin.ModelAdmin):
    """All users with a tenant."""

    list_display = ("user", "tenant")
    list_filter = ("tenant",)
    search_fields = ("user__username",)
    list_select_related = ("user", "tenant")
    autocomplete_fields = ("user",)
