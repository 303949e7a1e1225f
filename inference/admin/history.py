"""Each row's history: who set what, from which value to which, with a button that sets it back."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse

from inference import edits
from inference.admin import confirming
from inference.admin.halts import by
from inference.models import Edit, EditKind
from inference.templatetags import shown

NO_VALUES: Final[edits.Values] = {}


class WithHistory:
    """Mixed into a ModelAdmin, before all that save: every save and deletion is recorded, and can be reverted."""

    def consequences(self, request: HttpRequest, before: Any, after: Any, changed: set[str]) -> Sequence[str]:  # noqa: ARG002
        """Return what a change of these fields would refuse or hold back of what is taken now."""
        return ()

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Save, and note what that does to others."""
        before = edits.stored(obj) if change else None
        obj._values_before = edits.values_of(before) if before else NO_VALUES
        super().save_model(request, obj, form, change)  # type: ignore[misc]  # ModelAdmin has it
        if before:
            changed = edits.difference(obj._values_before, edits.values_of(obj))
            confirming.note(request, self.consequences(request, before, obj, set(changed)))

    def save_related(self, request: HttpRequest, form: Any, *args: Any, **kwargs: Any) -> None:
        """Save lists of rows, too, and record the edit; it follows every `save_model`."""
        super().save_related(request, form, *args, **kwargs)  # type: ignore[misc]
        row = form.instance
        edits.record(row, row._values_before, edits.values_of(row), by=by(request), undoes=_undoes(request))

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        """Delete, and record what it was."""
        edits.record(obj, edits.values_of(obj), NO_VALUES, by=by(request))
        super().delete_model(request, obj)  # type: ignore[misc]

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete one by one, each recorded."""
        for row in queryset:
            self.delete_model(request, row)

    def get_urls(self) -> list[URLPattern]:
        """Add the address that an edit is reverted at."""
        site, opts = self.admin_site, self.opts  # type: ignore[attr-defined]
        view = path(
            "<path:object_id>/history/<int:edit_id>/revert/",
            site.admin_view(self.revert_view),
            name=f"{opts.app_label}_{opts.model_name}_revert",
        )
        urls: list[URLPattern] = super().get_urls()  # type: ignore[misc]
        return [view, *urls]

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show the edits of a row."""
        row = self._row(request, object_id)
        lines = [self._line(request, row, edit) for edit in edits.of_row(row)] if row else []
        context = {"edits": lines, "title": f"History of {row}", **(extra_context or {})}
        response: Any = super().history_view(request, object_id, context)  # type: ignore[misc]
        if row:
            response.template_name = "admin/edits.html"
        found: HttpResponse = response
        return found

    def revert_view(self, request: HttpRequest, object_id: str, edit_id: int) -> HttpResponse:
        """Set back what an edit changed, once its user was asked; checked as any other change."""
        row = self._row(request, object_id)
        if row is None:
            raise Http404
        if not self.has_change_permission(request, row):  # type: ignore[attr-defined]
            raise PermissionDenied
        found = get_object_or_404(Edit, pk=edit_id, table=edits.table_of(row), row=edits.name_of(row))
        opts = self.opts  # type: ignore[attr-defined]
        history = reverse(f"admin:{opts.app_label}_{opts.model_name}_history", args=[row.pk])
        if request.method == "POST":
            return self.kept_if_confirmed(  # type: ignore[attr-defined,no-any-return]
                request, lambda: self._revert(request, row, found, history)
            )
        return redirect(history)

    def _revert(self, request: HttpRequest, row: Model, edit: Edit, history: str) -> HttpResponse:
        if not self._may_revert(request, row, edit):
            raise PermissionDenied
        form = self._form_back(request, row, edit)
        if not form.is_valid():
            told = "; ".join(
                f"{edits.label(edit, name)}: {' '.join(map(str, found))}" for name, found in form.errors.items()
            )
            messages.error(request, f"Not reverted: {told}")
            return redirect(history)
        request.__dict__["_undoes"] = edit
        confirming.note(request, back(edit, edits.values_of(edits.stored(row))))
        changed = form.save(commit=False)
        self.save_model(request, changed, form, change=True)
        self.save_related(request, form, [], change=True)
        self.log_change(request, changed, f"Reverted edit {edit.pk}.")  # type: ignore[attr-defined]
        messages.success(
            request, f"Reverted: {', '.join(edits.label(edit, name) for name in edit.values)} of {row}."
        )
        return redirect(history)

    def _form_back(self, request: HttpRequest, row: Model, edit: Edit) -> Any:
        """Return the row's form as who sets the old values by hand would send it."""
        lists = {field.name for field in row._meta.many_to_many}
        values = edits.values_of(row) | edits.undone(edit)
        back_form: Any = forms.modelform_factory(
            type(row),
            form=self.form,  # type: ignore[attr-defined]
            fields=self._editable(request, row),
        )
        fields = back_form.base_fields
        sent = {
            name: value if name in lists else _as_sent(fields.get(name), value) for name, value in values.items()
        }
        return back_form({name: value for name, value in sent.items() if value is not None}, instance=row)

    def _editable(self, request: HttpRequest, row: Model) -> list[str]:
        fixed = set(self.get_readonly_fields(request, row))  # type: ignore[attr-defined]
        return [name for name in edits.values_of(row) if name not in fixed]

    def _may_revert(self, request: HttpRequest, row: Model, edit: Edit) -> bool:
        may_change: bool = self.has_change_permission(request, row)  # type: ignore[attr-defined]
        is_change = edit.kind == EditKind.CHANGED and set(edit.values) <= set(self._editable(request, row))
        return may_change and is_change

    def _row(self, request: HttpRequest, object_id: str) -> Model | None:
        found: Model | None = self.get_object(request, unquote(object_id))  # type: ignore[attr-defined]
        return found

    def _line(self, request: HttpRequest, row: Model, edit: Edit) -> dict[str, Any]:
        opts, may = self.opts, self._may_revert(request, row, edit)  # type: ignore[attr-defined]
        address = (
            reverse(f"admin:{opts.app_label}_{opts.model_name}_revert", args=[row.pk, edit.pk]) if may else ""
        )
        return {"edit": edit, "changes": shown.changes(edit), "revert": address}


def back(edit: Edit, now: edits.Values) -> list[str]:
    """Return what a revert sets, in words."""
    since = edits.overtaken(edit, now)
    return [
        f"{edits.label(edit, name)}: {shown.value(now.get(name))} → {shown.value(before)}"
        + (" (changed again since that edit)" if name in since else "")
        for name, before in edits.undone(edit).items()
    ]


def _undoes(request: HttpRequest) -> Edit | None:
    found: Edit | None = request.__dict__.get("_undoes")
    return found


def _as_sent(field: forms.Field | None, value: Any) -> Any:
    """Return a value as a browser would send it; None for a box that is not ticked, or a field left empty."""
    if value is False:
        return None
    return field.prepare_value(value) if field and isinstance(value, dict | list) else value
