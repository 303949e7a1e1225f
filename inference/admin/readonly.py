"""Rows that the software writes and people only read."""

from typing import Any

from django.http import HttpRequest


class ReadOnly:
    """Mixed into a ModelAdmin or an inline: may be viewed, never added, changed or deleted."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002 - Django's
        """Nobody deletes."""
        return False
