"""What is allowed, and yet not what the admin may have meant."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from inference import checks


class WarnsAfterSave:
    """Mixed into a ModelAdmin of limits: what `manage.py check` would say of them is said at once."""

    def log_addition(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Warn after a new row and those below it were saved."""
        _warn(request)
        return super().log_addition(request, *args, **kwargs)  # type: ignore[misc]

    def log_change(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Warn after a change."""
        _warn(request)
        return super().log_change(request, *args, **kwargs)  # type: ignore[misc]


def _warn(request: HttpRequest) -> None:
    for found in checks.check_limits():
        messages.warning(request, f"{found.msg}. {found.hint or ''}")
