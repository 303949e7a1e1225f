"""Workers as they last reported themselves."""

import math
from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.decorators import display

from inference import clock, consequences, fleet, halts
from inference.admin.base import ModelAdmin
from inference.admin.confirming import Confirms
from inference.admin.halts import ACTIONS, WithHalts
from inference.admin.history import WithHistory
from inference.admin.readonly import ReadOnly
from inference.models import Worker, WorkerLimit
from inference.states import WorkerState
from inference.templatetags import shown

STATES: Final = {
    WorkerState.STARTING: "warning",
    WorkerState.LOADING: "warning",
    WorkerState.WARMING: "warning",
    WorkerState.READY: "success",
    WorkerState.PAUSED: "warning",
    WorkerState.DRAINING: "warning",
    WorkerState.FAILED: "danger",
}
"""A worker's states in the list, and their colours; one that has stopped has none."""


class HaltsWorkers(WithHalts, ReadOnly, Confirms):
    """Mixed into a ModelAdmin whose rows' keys are names of workers."""

    halt = staticmethod(halts.halt_workers)
    halt_permission = halts.WORKER_PERMISSION

    def halting(self, action: halts.Action, names: Sequence[str]) -> list[str]:  # noqa: ARG002 - both hold back
        """Return what a pause or drain of these workers does."""
        running = dict(Worker.objects.filter(name__in=names).values_list("name", "in_flight"))
        return [consequences.of_worker(name, running.get(name, 0)) for name in names]


@admin.register(WorkerLimit)
class WorkerLimitAdmin(HaltsWorkers, WithHistory, ModelAdmin):
    """What was said of workers, of those too that are gone."""

    actions = ACTIONS
    list_display = ("worker", "is_paused", "is_draining", "halted")
    search_fields = ("worker",)


@admin.register(Worker)
class WorkerAdmin(HaltsWorkers, ModelAdmin):
    """The registry of workers."""

    actions = ACTIONS
    list_display = ("name", "model", "engine", "device", "badge", "is_heard", "slots_used", "kv_used", "heartbeat")
    list_filter = ("state", "model")
    search_fields = ("name", "host")
    fields = (
        *("name", "model", "engine", "device", "serves", "host", "process", "state", "state_detail"),
        *("slots_used", "kv_used", "started_at", "ready_at", "heartbeat_at"),
    )

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """Show what was said of the worker: it is kept by its name, and outlives its row."""
        if WorkerLimit.objects.filter(worker=unquote(object_id)).exists():
            return redirect("admin:inference_workerlimit_history", object_id)
        found: HttpResponse = super().history_view(request, object_id, extra_context)
        return found

    @display(description="state", ordering="state", label=STATES)
    def badge(self, worker: Worker) -> str:
        """Return the state, to be coloured."""
        return worker.state

    @admin.display(description="heard lately", boolean=True)
    def is_heard(self, worker: Worker) -> bool:
        """Whether it reported lately; if not, the rest of its row is old."""
        return not fleet.is_stale(worker.heartbeat_at, now=clock.now())

    @admin.display(description="serves")
    def serves(self, worker: Worker) -> str:
        """Return the patterns of the queues that it takes jobs from."""
        return ", ".join(worker.serve)

    @admin.display(description="process ID")
    def process(self, worker: Worker) -> str:
        """Return it as its host knows it: a name, not a number to be counted."""
        return str(worker.pid)

    @admin.display(description="in flight")
    def slots_used(self, worker: Worker) -> str:
        """Return jobs in flight, of slots."""
        return f"{shown.count(worker.in_flight)} of {shown.count(worker.slots)}"

    @admin.display(description="KV tokens")
    def kv_used(self, worker: Worker) -> str:
        """Return KV tokens in use, of all."""
        return f"{shown.count(worker.kv_used_tokens)} of {shown.count(worker.kv_capacity_tokens)}"

    @admin.display(description="last heard from", ordering="heartbeat_at")
    def heartbeat(self, worker: Worker) -> str:
        """Return how long ago it reported."""
        silent = (clock.now() - worker.heartbeat_at).total_seconds()
        return f"{shown.seconds(max(0, math.ceil(silent)), places=0)} ago"
