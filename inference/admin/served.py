"""The models that are served, and what their engines start with."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from inference import consequences, selectors
from inference.admin import backlog
from inference.admin.backlog import WithBacklog
from inference.admin.base import LimitAdmin
from inference.admin.forms import ServedModelForm
from inference.admin.queues import MakesQueues
from inference.admin.readonly import KeptName
from inference.models import ServedModel
from inference.rows import QueueRow
from inference.templatetags import shown

ENGINE_FIELDS: Final = (
    *("source", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "enforce_eager"),
    *("tensor_parallel_size", "cpu_kv_cache_gib", "engine_args", "stall_seconds"),
)
"""Arguments of a process: only who may add a model may set them. An operator's limits run nothing."""


@admin.register(ServedModel)
class ServedModelAdmin(MakesQueues, WithBacklog, KeptName, LimitAdmin):
    """Models and the options of their engines."""

    form = ServedModelForm
    queues_by = "model"
    bounds = frozenset({"enabled", "max_in_flight", "max_queued_bytes"})
    list_display = (
        *("name", "served", "max_in_flight", "ready_workers"),
        *(*backlog.COLUMNS, "measured_rates"),
    )
    list_editable = ("max_in_flight",)
    list_filter = ("enabled",)
    search_fields = ("name", "source")
    fieldsets = (
        (None, {"fields": ("name", "enabled", "is_default", "estimates_tokens")}),
        (
            "Engine",
            {
                "description": "Take effect when an engine starts: restart the model's workers.",
                "fields": ENGINE_FIELDS,
            },
        ),
        (
            "How much is taken",
            {
                "description": "Live within a second. Fails closed: without Redis nothing is taken.",
                "fields": (
                    *("scales_from_zero", "engine_start_seconds", "max_queued_bytes", "emergency_watermark"),
                ),
            },
        ),
        (
            "Room and estimates",
            {
                "description": "Live within a second.",
                "fields": (
                    *("kv_margin_tokens", "default_output_tokens"),
                    *("prefill_tokens_per_second", "decode_tokens_per_second", "measured_rates"),
                    *("max_in_flight", "reserve_share"),
                ),
            },
        ),
        (
            "Warm-up",
            {
                "description": "A worker takes no work before its engine answered this as it should.",
                "fields": ("warmup_prompt", "warmup_answer"),
            },
        ),
    )
    readonly_fields = ("measured_rates",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Fix what engines start with for all who may not add models."""
        fixed = super().get_readonly_fields(request, obj)
        return fixed if self.has_add_permission(request) else [*fixed, *ENGINE_FIELDS]

    def get_queryset(self, request: HttpRequest) -> QuerySet[ServedModel]:
        """Return the models with what is known of their workers."""
        models: QuerySet[ServedModel] = super().get_queryset(request)
        return models.prefetch_related("workers")

    def taken_away(self, before: Any, after: Any, rows: list[QueueRow]) -> list[str]:
        """Return what a lower cap of a model does, or its end."""
        return consequences.of_model(before, after, rows)

    @admin.display(description="served", ordering="enabled")
    def served(self, model: ServedModel) -> str:
        """Return whether clients get it, and whether those get it who name none."""
        return "no" if not model.enabled else "by default" if model.is_default else "yes"

    @admin.display(description="ready")
    def ready_workers(self, model: ServedModel) -> str:
        """Return how many workers serve the model, of how many."""
        totals = selectors.totals([], selectors.worker_rows(model.workers.all()))
        return f"{totals.ready_workers} of {totals.workers}"

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Put the rates on the rows that the page shows, read once; none while Redis is away."""
        page: Any = super().get_changelist_instance(request)
        found = selectors.rates_rows()
        for row in page.result_list:
            row.rates = found.get(row.pk)
        return page

    @admin.display(description="measured, tokens/s")
    def measured_rates(self, model: ServedModel) -> str:
        """Return prefill and decode as calls showed them, and from how many calls."""
        rates = model.rates if hasattr(model, "rates") else selectors.rates_rows().get(model.pk)
        if rates is None or not rates.measured_calls:
            return "not yet"
        prefill, decode = rates.prefill_tokens_per_second, rates.decode_tokens_per_second
        calls = shown.count(rates.measured_calls)
        return f"{shown.count(round(prefill))} in, {decode:.3g} out (by about {calls} calls)"
