"""What the admin's pages have in common."""

from typing import Any

from django.contrib import messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.db.models import CharField, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold import admin as unfold

from inference import fields
from inference.admin.changes import SavesChanges
from inference.admin.confirming import Confirms
from inference.admin.history import WithHistory
from inference.admin.warnings import WarnsAfterSave
from inference.templatetags import shown


class ModelAdmin(unfold.ModelAdmin):
    """A model's pages, as unfold draws them."""

    empty_value_display = shown.NONE

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Do an action to the chosen rows; what can be the key of none is told, and nothing is done."""
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            if not self._may_be_key(chosen):
                told = f"{fields.show(chosen)} is no {self.opts.verbose_name} id: nothing was done."
                self.message_user(request, told, messages.ERROR)
                return redirect(request.get_full_path())
        response: HttpResponse | None = super().response_action(request, queryset, *args, **kwargs)
        return response

    def _get_edited_object_pks(self, request: HttpRequest, prefix: str) -> list[str]:
        """Return the keys of the rows whose fields a list sends; of a row that cannot be, none."""
        return [key for key in super()._get_edited_object_pks(request, prefix) if self._may_be_key(key)]

    def _may_be_key(self, chosen: str) -> bool:
        """Whether the table's key could have the value: the database fails on others."""
        if isinstance(self.opts.pk, CharField):
            return fields.is_sound(chosen)
        try:
            self.opts.pk.clean(chosen, None)
        except ValidationError:
            return False
        return True


class TabularInline(unfold.TabularInline):
    """Rows below another row, as unfold draws them."""

    empty_value_display = shown.NONE


class LimitAdmin(WithHistory, Confirms, SavesChanges, WarnsAfterSave, ModelAdmin):
    """Rows that people edit: with a history, a way back, and a question where a change takes something away."""

    list_fullwidth = True
