"""Saves of forms that others may have overtaken."""

from collections.abc import Iterable
from typing import Any

from django.db import models
from django.http import HttpRequest


class SavesChanges:
    """Mixed into a ModelAdmin: a save writes what its user changed, and nothing of what others did meanwhile.

    A form carries what it showed in hidden fields, so that a box which somebody else has ticked since is not taken
    for one that this user unticked.
    """

    def formfield_for_dbfield(
        self, db_field: "models.Field[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> Any:
        """Have the form send what it showed; not of lists of rows, which are saved whole."""
        shown = {} if db_field.many_to_many else {"show_hidden_initial": True}
        return super().formfield_for_dbfield(db_field, request, **{**kwargs, **shown})  # type: ignore[misc]

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:  # noqa: FBT001 - Django's
        """Write the fields that were changed; the row is then as the database has it."""
        if not change:
            super().save_model(request, obj, form, change)  # type: ignore[misc]
            return
        names = {field.name for field in obj._meta.concrete_fields if not field.primary_key}
        changed = names & set(form.changed_data)
        obj.refresh_from_db(fields=sorted(names - changed))
        obj.save(update_fields={*changed, *self.changed_with(request, obj, changed)})

    def changed_with(self, request: HttpRequest, obj: Any, changed: set[str]) -> Iterable[str]:  # noqa: ARG002
        """Set on the row what a change of these fields brings with it, and return its names."""
        return ()
