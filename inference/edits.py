"""The history of what people set: each change of a row with its author, and the way back.

Whoever changes a limit for a person records it here, in the transaction of the change: the admin's pages, halts
from API and command line, the command that makes keys. An edit holds the fields that changed and no others: a
revert undoes that edit alone.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeVar

from django.apps import apps
from django.db.models import AutoField, DateTimeField, ForeignKey, ManyToManyField, Model

from inference.models import ApiKey, Edit, EditKind

Values = dict[str, Any]
Row = TypeVar("Row", bound=Model)

SHOWN: Final = 200
"""Edits of one row on its page."""
_NEVER: Final = {"password", "last_login"}
"""Of users: no secret, and nothing that a person did not set."""
_APPS: Final = ("inference", "auth")
"""Where the tables are that people edit."""
_AS_IT_IS: Final = (type(None), bool, int, float, str, list, dict)
"""What JSON holds; all else as text."""


def stored(row: Row) -> Row:
    """Return the row as the database has it, locked until the transaction ends. Raises Model.DoesNotExist."""
    return type(row)._default_manager.select_for_update().get(pk=row.pk)


def name_of(row: Model) -> str:
    """Return what the row is called in its history. An API key's own is its hash: it goes by its prefix."""
    return row.prefix if isinstance(row, ApiKey) else str(row.pk)


def table_of(model: Model | type[Model]) -> str:
    """Return what the rows' table is called in the history."""
    return str(model._meta.model_name)


def values_of(row: Model) -> Values:
    """Return what people may set of a saved row, as JSON holds it. What the software notes is no edit."""
    fields = [field for field in row._meta.concrete_fields if field.editable and not field.primary_key]
    plain = {field.name: _plain(_value(field, row)) for field in fields if field.name not in _NEVER}
    chosen = {field.name: field.value_from_object(row) for field in row._meta.many_to_many}
    return plain | {name: sorted(str(other.pk) for other in others) for name, others in chosen.items()}


def record(row: Model, before: Values, after: Values, *, by: str, undoes: Edit | None = None) -> Edit | None:
    """Write what differs; None if nothing does. No value before: the row is new; none after: it is gone."""
    changed = difference(before, after)
    if not changed and before and after:
        return None
    kind = EditKind.CHANGED if before and after else EditKind.DELETED if before else EditKind.CREATED
    return Edit.objects.create(
        by=by[:200], kind=kind, table=table_of(row), row=name_of(row)[:192], values=changed, undoes=undoes
    )


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return each field whose value is another one, with both; a value that is not there is None."""
    names = [*before, *(name for name in after if name not in before)]
    pairs = {name: [before.get(name), after.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def undone(edit: Edit) -> Values:
    """Return the values that the edit replaced."""
    return {name: before for name, (before, _) in edit.values.items()}


def overtaken(edit: Edit, now: Mapping[str, Any]) -> list[str]:
    """Return the fields of the edit that have changed again since: a revert puts these back, too."""
    return [name for name, (_, after) in edit.values.items() if now.get(name) != after]


def of_row(row: Model) -> list[Edit]:
    """Return the row's last edits, newest first."""
    found = Edit.objects.filter(table=table_of(row), row=name_of(row)).select_related("undoes")
    return list(found[:SHOWN])


def model_of(edit: Edit) -> type[Model] | None:
    """Return the model whose row was edited; None if there is none of that name any more."""
    models = [model for app in _APPS for model in apps.get_app_config(app).get_models()]
    return next((model for model in models if table_of(model) == edit.table), None)


def title_of(edit: Edit) -> str:
    """Return what was edited, as people call it: `tier bulk`, `user ada`; of a row that is gone, its number."""
    model = model_of(edit)
    kind, name = (str(model._meta.verbose_name), _called(model, edit.row)) if model else (edit.table, edit.row)
    return name if name.startswith(kind) else f"{kind} {name}"


def label(edit: Edit, name: str) -> str:
    """Return what pages call a field of the edit: `paused`; one that the table has no more, by its name."""
    field = _field(model_of(edit), name)
    return str(field.verbose_name) if field else name.replace("_", " ")


def named(edit: Edit) -> Values:
    """Return the edit's values with names in place of the numbers of other rows."""
    model = model_of(edit)
    return {name: [_named(model, name, value) for value in pair] for name, pair in edit.values.items()}


def _field(model: type[Model] | None, name: str) -> Any:
    """Return a field that people may set; None if there is none of that name."""
    fields = [*model._meta.concrete_fields, *model._meta.many_to_many] if model else []
    return next((field for field in fields if field.name == name), None)


def _named(model: type[Model] | None, name: str, value: Any) -> Any:
    field = _field(model, name)
    if isinstance(field, DateTimeField) and isinstance(value, str):
        return datetime.fromisoformat(value)
    if not isinstance(field, ForeignKey | ManyToManyField) or value is None:
        return value
    other: Any = field.related_model
    return [_called(other, pk) for pk in value] if isinstance(value, list) else _called(other, value)


def _called(model: type[Model], pk: Any) -> str:
    """Return a row's name: its key, unless that is a number."""
    if not isinstance(model._meta.pk, AutoField):
        return str(pk)
    found = model._default_manager.filter(pk=pk).first()
    return str(found) if found else f"no. {pk}"


def _value(field: Any, row: Model) -> Any:
    """Return a field's value; of one that points to a key, its prefix: the key's own name is its hash."""
    if field.related_model is ApiKey:
        key = getattr(row, field.name)
        return key.prefix if key else None
    value = field.value_from_object(row)
    return round(value, field.decimal_places) if isinstance(value, Decimal) else value  # as the database has it


def _plain(value: Any) -> Any:
    return (
        value if isinstance(value, _AS_IT_IS) else value.isoformat() if hasattr(value, "isoformat") else str(value)
    )
