"""What may not be edited: rows that the software writes, and names that other rows refer to."""

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


class KeptName:
    """Mixed into a ModelAdmin of rows whose name is their key: another name would make another row."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Fix the name of a row that exists."""
        others: list[str] = [*super().get_readonly_fields(request, obj)]  # type: ignore[misc]  # ModelAdmin has it
        return [*others, obj._meta.pk.name] if obj else others

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Put the name first, fixed or not."""
        found: list[Any] = [*super().get_fields(request, obj)]  # type: ignore[misc]
        return sorted(found, key=lambda field: field != self.opts.pk.name)  # type: ignore[attr-defined]
