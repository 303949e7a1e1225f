"""The history of all rows together."""

from django.contrib import admin
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from inference import edits
from inference.admin.base import ModelAdmin
from inference.admin.readonly import ReadOnly
from inference.models import Edit
from inference.templatetags import shown


@admin.register(Edit)
class EditAdmin(ReadOnly, ModelAdmin):
    """Who set what, in every table; a row's own history is where one is reverted."""

    list_display = ("at", "by", "kind", "where", "what")
    list_filter = ("table", "kind")
    search_fields = ("row", "by")
    list_select_related = ("undoes",)
    show_full_result_count = False
    fields = ("at", "by", "kind", "where", "what", "undoes")

    @admin.display(description="row", ordering="row")
    def where(self, edit: Edit) -> str:
        """Return the row, with a link to its history; of keys, whose address is their hash, the prefix alone."""
        name, model = edits.title_of(edit), edits.model_of(edit)
        app = model._meta.app_label if model else ""
        try:
            address = reverse(f"admin:{app}_{edit.table}_history", args=[edit.row])
        except NoReverseMatch:
            return name
        return name if edit.table == "apikey" else format_html('<a href="{}">{}</a>', address, name)

    @admin.display(description="from and to")
    def what(self, edit: Edit) -> SafeString:
        """Return the fields that changed, each on a line."""
        lines = format_html_join("", "<div>{}</div>", ((line,) for line in shown.changes(edit)))
        return format_html("<div>{}</div>", lines)
