"""The history of what people set: each change of a row with its author, and the way back.

Whoever changes a limit for a person records it here, in the transaction of the change: the admin's pages, halts
from API and command line, the command that makes keys. An edit holds the fields that changed and no others: a
revert undoes that edit alone.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from django.db.models import Model

from inference.models import ApiKey, Edit, EditKind

Values = dict[str, Any]
Row = TypeVar("Row", bound=Model)

SHOWN: Final = 200
"""Edits of one row on its page."""
_NEVER: Final = {"password", "last_login"}
"""Of users: no secret, and nothing that a person did not set."""
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
    plain = {field.name: _plain(field.value_from_object(row)) for field in fields if field.name not in _NEVER}
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


def _plain(value: Any) -> Any:
    return (
        value if isinstance(value, _AS_IT_IS) else value.isoformat() if hasattr(value, "isoformat") else str(value)
    )
