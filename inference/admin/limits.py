"""What an admin sets: tiers, length classes, models, caps. `inference.snapshot` carries it to all processes."""

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from inference import halts, selectors, snapshot
from inference.admin import backlog
from inference.admin.backlog import WithBacklog
from inference.admin.changes import SavesChanges
from inference.admin.halts import ACTIONS, WithHalts, by
from inference.admin.readonly import KeptName
from inference.admin.warnings import WarnsAfterSave
from inference.models import LengthClass, QueueLimit, ServedModel, Tier
from inference.templatetags import shown


def _duration(field: str, description: str) -> Callable[[Tier], str]:
    """Return a column that shows seconds as people say them."""

    @admin.display(description=description, ordering=field)
    def column(tier: Tier) -> str:
        return shown.seconds(getattr(tier, field))

    return column


class TierForm(forms.ModelForm):
    """A tier, checked against the others."""

    def clean_service_tiers(self) -> list[str]:
        """Refuse a value that picks another tier already: nothing would say which one wins."""
        values: list[str] = self.cleaned_data["service_tiers"] or []
        for other in Tier.objects.exclude(pk=self.instance.pk):
            if doubled := sorted(set(values) & set(other.service_tiers)):
                picked = ", ".join(doubled)
                raise forms.ValidationError(f"{picked} already picks tier {other}: remove it there first.")
        return values

    def clean(self) -> dict[str, Any]:
        """Refuse an objective that no job could miss in time."""
        cleaned: dict[str, Any] = super().clean() or {}
        target, deadline = cleaned.get("target_wait_seconds"), cleaned.get("start_deadline_seconds")
        if target is not None and deadline is not None and target > deadline:
            told = f"{target:g} s is later than the start deadline, {deadline:g} s: jobs would expire first."
            self.add_error("target_wait_seconds", told)
        return cleaned


@admin.register(Tier)
class TierAdmin(SavesChanges, WithBacklog, WarnsAfterSave, KeptName, admin.ModelAdmin):
    """Classes of service."""

    form = TierForm
    queues_by = "tier"
    list_display = (
        *("name", "weight", "picked_by"),
        _duration("target_wait_seconds", "target wait"),
        _duration("start_deadline_seconds", "start deadline"),
        _duration("run_timeout_seconds", "run timeout"),
        *backlog.COLUMNS,
    )
    fieldsets = (
        (None, {"fields": ("name", "position", "service_tiers")}),
        ("Who goes first", {"fields": ("weight", "engine_priority", "uses_reserve")}),
        (
            "How much runs at once",
            {
                "description": "Live at once.",
                "fields": ("max_share", "max_in_flight", "gather_jobs", "gather_seconds", "max_attempts"),
            },
        ),
        (
            "Times, in seconds",
            {
                "fields": (
                    *("target_wait_seconds", "start_deadline_seconds"),
                    *("sync_start_deadline_seconds", "run_timeout_seconds"),
                )
            },
        ),
    )

    @admin.display(description="service_tier")
    def picked_by(self, tier: Tier) -> str:
        """Return the values of OpenAI's field that pick the tier."""
        return ", ".join(tier.service_tiers)


@admin.register(LengthClass)
class LengthClassAdmin(SavesChanges, WithBacklog, WarnsAfterSave, KeptName, admin.ModelAdmin):
    """Classes of prompt length."""

    queues_by = "length"
    list_display = ("name", "prompt_tokens", *backlog.COLUMNS)

    @admin.display(description="prompt tokens")
    def prompt_tokens(self, length: LengthClass) -> str:
        """Return the bound in words."""
        bound = length.max_prompt_tokens
        return "all longer ones" if bound is None else f"up to {bound:,}"


class ServedModelForm(forms.ModelForm):
    """A model with options that its engine would start with."""

    def clean(self) -> dict[str, Any]:
        """Refuse what vLLM refuses, before an engine fails on it."""
        cleaned: dict[str, Any] = super().clean() or {}
        batched, sequences = cleaned.get("max_num_batched_tokens"), cleaned.get("max_num_seqs")
        if batched is not None and sequences is not None and batched < sequences:
            told = f"{batched} is less than max num seqs, {sequences}: a step must have a token for each sequence."
            self.add_error("max_num_batched_tokens", told)
        return cleaned


@admin.register(ServedModel)
class ServedModelAdmin(SavesChanges, WithBacklog, WarnsAfterSave, KeptName, admin.ModelAdmin):
    """Models and the options of their engines."""

    form = ServedModelForm
    queues_by = "model"
    list_display = (
        *("name", "enabled", "is_default", "ready_workers", "measured_rates"),
        *backlog.COLUMNS,
    )
    list_filter = ("enabled",)
    search_fields = ("name", "source")
    fieldsets = (
        (None, {"fields": ("name", "enabled", "is_default", "source")}),
        (
            "Engine",
            {
                "description": "Take effect when an engine starts: restart the model's workers.",
                "fields": (
                    *("max_model_len", "max_num_seqs", "max_num_batched_tokens", "dtype", "enforce_eager"),
                    *("tensor_parallel_size", "cpu_kv_cache_gib", "engine_args", "stall_seconds"),
                ),
            },
        ),
        (
            "Room and estimates",
            {
                "description": "Live at once.",
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

    def get_queryset(self, request: HttpRequest) -> QuerySet[ServedModel]:
        """Return the models with what is known of their workers."""
        return super().get_queryset(request).prefetch_related("workers")

    @admin.display(description="workers ready")
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
        return f"{prefill:,.0f} in, {decode:,.3g} out (by about {rates.measured_calls} calls)"


class QueueLimitForm(forms.ModelForm):
    """Limits of a queue that exists."""

    def clean_queue(self) -> str:
        """Refuse the name of no queue: it would hold nothing back."""
        queue: str = self.cleaned_data["queue"]
        names = snapshot.read().queues()
        if queue not in names:
            raise forms.ValidationError(f"There is no queue {queue}. There are: {', '.join(names)}.")
        return queue


@admin.register(QueueLimit)
class QueueLimitAdmin(SavesChanges, WithHalts, WithBacklog, KeptName, admin.ModelAdmin):
    """Limits of single queues."""

    form = QueueLimitForm
    queues_by = "queue"
    halt = staticmethod(halts.halt_queues)
    halt_permission = halts.QUEUE_PERMISSION
    actions = ACTIONS
    list_display = ("queue", "max_jobs", "max_in_flight", "is_paused", "is_draining", "halted", *backlog.COLUMNS)
    list_filter = ("is_paused", "is_draining")
    search_fields = ("queue",)
    readonly_fields = ("halted",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[QueueLimit]:
        """Return a row for each queue: the first look at one makes it, with no limits."""
        rows = super().get_queryset(request)
        missing = set(snapshot.limits().queues()).difference(rows.values_list("queue", flat=True))
        QueueLimit.objects.bulk_create([QueueLimit(queue=queue) for queue in missing], ignore_conflicts=True)
        return rows

    def save_model(self, request: HttpRequest, obj: QueueLimit, form: Any, change: bool) -> None:  # noqa: FBT001
        """Save; a pause or a drain ticked in the form is one as any other."""
        if not change:
            self.changed_with(request, obj, set(form.changed_data))
        super().save_model(request, obj, form, change)

    def changed_with(self, request: HttpRequest, obj: QueueLimit, changed: set[str]) -> Iterable[str]:
        """Note who halted or resumed the queue."""
        if not {"is_paused", "is_draining"} & changed:
            return ()
        before = QueueLimit.objects.filter(pk=obj.pk).first()
        halts.stamp(obj, was_halted=before is not None and before.is_halted, by=by(request))
        return halts.HALT_FIELDS
