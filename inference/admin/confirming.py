"""Asks before a change refuses, or holds back, what is taken now."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from django import forms
from django.contrib.messages.storage import default_storage
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

CONFIRMED: Final = "_confirmed"
"""Sent with the same form once more by who was asked and said yes."""
_NOT_REPEATED: Final = {"csrfmiddlewaretoken", CONFIRMED}


def note(request: HttpRequest, told: Iterable[str]) -> None:
    """Have the user asked before what this request does is kept: each line says what it would do."""
    noted(request).extend(told)


def noted(request: HttpRequest) -> list[str]:
    """Return what was noted."""
    found: list[str] = request.__dict__.setdefault("_noted", [])
    return found


def is_confirmed(request: HttpRequest) -> bool:
    """Whether the user was asked, and said yes."""
    return request.method == "POST" and CONFIRMED in request.POST


class Asks:
    """Mixed into a ModelAdmin: shows a question in place of what it is about."""

    def ask(self, request: HttpRequest, told: Iterable[str], form: forms.Form | None = None) -> HttpResponse:
        """Show what would happen, with the same form to be sent once more, and what else is asked."""
        left_out = _NOT_REPEATED | set(form.fields if form else ())
        again = [
            (name, value) for name, values in request.POST.lists() if name not in left_out for value in values
        ]
        context = {
            **self.admin_site.each_context(request),  # type: ignore[attr-defined]
            "title": "Are you sure?",
            "opts": self.opts,  # type: ignore[attr-defined]
            "told": list(dict.fromkeys(told)),
            "again": again,
            "confirmed": CONFIRMED,
            "form": form,
        }
        return TemplateResponse(request, "admin/confirm.html", context)


class Confirms(Asks):
    """Mixed into a ModelAdmin: what a save notes is asked about, and undone until the answer is yes."""

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Save one row, or ask."""
        save: Callable[..., HttpResponse] = super().changeform_view  # type: ignore[misc]  # ModelAdmin has it
        return self.kept_if_confirmed(request, lambda: save(request, *args, **kwargs))

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Save rows of a list or run an action, or ask."""
        save: Callable[..., HttpResponse] = super().changelist_view  # type: ignore[misc]
        return self.kept_if_confirmed(request, lambda: save(request, *args, **kwargs))

    def kept_if_confirmed(self, request: HttpRequest, save: Callable[[], HttpResponse]) -> HttpResponse:
        """Run a view in a transaction, which is rolled back if it noted what its user was not asked about yet."""
        if request.method != "POST":
            return save()
        self.look(request)
        with transaction.atomic():
            response = save()
            if is_confirmed(request) or not noted(request):
                return response
            transaction.set_rollback(True)
        request.__dict__["_messages"] = default_storage(request)  # without those of what was not done
        return self.ask(request, noted(request))

    def look(self, request: HttpRequest) -> None:
        """Read what a question needs: limits read in the transaction would be seen by all, committed or not."""
