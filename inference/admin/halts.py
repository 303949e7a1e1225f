"""Pause, drain and resume as actions on lists, with a line in each row's history."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse

from inference.admin import confirming
from inference.halts import Action
from inference.models import QueueLimit, WorkerLimit
from inference.templatetags import shown

SAID: Final = {Action.PAUSE: "Paused.", Action.DRAIN: "Drains.", Action.RESUME: "Resumed."}
"""In a row's history."""

ACTIONS: Final = ("pause", "drain", "resume")


def by(request: HttpRequest) -> str:
    """Return who acts, as rows and logs have it."""
    return f"user {request.user.get_username()}"


class WithHalts:
    """Mixed into one that `Confirms`, whose rows' keys are names to halt: `ACTIONS`, and a column `halted`."""

    halt: Callable[..., Iterable[Model]]
    """`halts.halt_queues` or `halts.halt_workers`, as a static method."""
    halt_permission: str

    def halting(self, action: Action, names: Sequence[str]) -> list[str]:
        """Return what a pause or drain of these would hold back or refuse."""
        raise NotImplementedError

    @admin.display(description="halted or resumed")
    def halted(self, row: QueueLimit | WorkerLimit) -> str:
        """Return how it stands since somebody paused, drained or resumed it last, who and when."""
        return shown.halted(row)

    def has_halt_permission(self, request: HttpRequest) -> bool:
        """Whether the user may."""
        return request.user.has_perm(self.halt_permission)

    @admin.action(description="Pause: claim nothing", permissions=["halt"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Have nothing claimed."""
        return self._act(request, queryset, Action.PAUSE)

    @admin.action(description="Drain: work off what is there, take no more", permissions=["halt"])
    def drain(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """Have nothing more taken."""
        return self._act(request, queryset, Action.DRAIN)

    @admin.action(description="Resume", permissions=["halt"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        """End both."""
        return self._act(request, queryset, Action.RESUME)

    def _act(self, request: HttpRequest, queryset: QuerySet[Any], action: Action) -> HttpResponse | None:
        rows = list(queryset)
        names = [row.pk for row in rows]
        if action is not Action.RESUME and not confirming.is_confirmed(request):
            response: HttpResponse = self.ask(request, self.halting(action, names))  # type: ignore[attr-defined]
            return response
        self.halt(action, names, by=by(request))
        for row in rows:
            self.log_change(request, row, SAID[action])  # type: ignore[attr-defined]  # ModelAdmin has it
        told = f"{SAID[action]} {', '.join(str(row) for row in rows)}"
        self.message_user(request, told, messages.SUCCESS)  # type: ignore[attr-defined]
        return None
