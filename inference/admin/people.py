"""Who logs in, in which role, and for which tenant."""

from typing import Any, ClassVar

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from inference import edits
from inference.admin.base import LimitAdmin, ModelAdmin, TabularInline
from inference.admin.confirming import Confirms
from inference.admin.halts import by
from inference.admin.history import NO_VALUES, WithHistory
from inference.models import Membership

admin.site.unregister(User)
admin.site.unregister(Group)


class MembershipInline(TabularInline):
    """A user's tenant, on the user's page."""

    model = Membership
    verbose_name_plural = "tenant"
    can_delete = True


@admin.register(User)
class PersonAdmin(WithHistory, Confirms, UserAdmin, ModelAdmin):
    """Users as Django has them, with their tenant."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ("username", "roles", "tenant", "is_staff", "is_active", "last_login")
    list_select_related = ("membership",)
    inlines: ClassVar = [MembershipInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Return users with their roles."""
        return super().get_queryset(request).prefetch_related("groups")

    @admin.display(description="roles")
    def roles(self, user: User) -> str | None:
        """Return what the user may do."""
        roles = [group.name for group in user.groups.all()]
        return ", ".join(["superuser", *roles] if user.is_superuser else roles) or None

    @admin.display(description="tenant")
    def tenant(self, user: User) -> str | None:
        """Return the tenant whose jobs the user sees."""
        return user.membership.tenant_id if hasattr(user, "membership") else None

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save the membership, and record what it was."""
        before = _membership(form.instance)
        values = edits.values_of(before) if before else NO_VALUES
        super().save_formset(request, form, formset, change)
        after = _membership(form.instance)
        if row := after or before:
            edits.record(row, values, edits.values_of(after) if after else NO_VALUES, by=by(request))


def _membership(user: User) -> Membership | None:
    return Membership.objects.filter(user=user).first()


@admin.register(Group)
class RoleAdmin(WithHistory, Confirms, GroupAdmin, ModelAdmin):
    """Roles: what their users may do. Two are there from the start, operator and viewer."""

    list_display = ("name", "users")

    @admin.display(description="users")
    def users(self, role: Group) -> int:
        """Return how many users have it."""
        return role.user_set.count()


@admin.register(Membership)
class MembershipAdmin(LimitAdmin):
    """All users with a tenant."""

    list_display = ("user", "tenant")
    list_filter = ("tenant",)
    search_fields = ("user__username",)
    list_select_related = ("user", "tenant")
    autocomplete_fields = ("user",)
