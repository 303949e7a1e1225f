"""What the admin's pages have in common."""

from unfold import admin as unfold

from inference.admin.changes import SavesChanges
from inference.admin.confirming import Confirms
from inference.admin.history import WithHistory
from inference.admin.warnings import WarnsAfterSave
from inference.templatetags import shown


class ModelAdmin(unfold.ModelAdmin):
    """A model's pages, as unfold draws them."""

    empty_value_display = shown.NONE


class TabularInline(unfold.TabularInline):
    """Rows below another row, as unfold draws them."""


class LimitAdmin(WithHistory, Confirms, SavesChanges, WarnsAfterSave, ModelAdmin):
    """Rows that people edit: with a history, a way back, and a question where a change takes something away."""

    list_fullwidth = True
