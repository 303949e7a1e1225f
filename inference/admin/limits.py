"""What an admin sets of tiers, length classes and queues. `inference.snapshot` carries it to all processes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from unfold.decorators import display

from inference import broker, consequences, halts, objectives, selectors
from inference.admin import backlog
from inference.admin.backlog import WithBacklog
from inference.admin.base import LimitAdmin
from inference.admin.forms import LengthClassForm, QueueLimitForm, TierForm
from inference.admin.halts import ACTIONS, WithHalts, by
from inference.admin.queues import MakesQueues
from inference.admin.readonly import KeptName
from inference.models import LengthClass, QueueLimit, Tier
from inference.rows import QueueRow
from inference.templatetags import shown

PAUSED, DRAINING, OPEN = "paused", "draining", "open"
STATES: Final = {PAUSED: "warning", DRAINING: "warning", OPEN: "success"}
"""A queue's states in the list, and their colours."""


def _duration(field: str, description: str) -> Callable[[Tier], str]:
    """Return a column that shows seconds as people say them."""

    @admin.display(description=description, ordering=field)
    def column(tier: Tier) -> str:
        return shown.seconds(getattr(tier, field))

    return column


@admin.register(Tier)
class TierAdmin(MakesQueues, WithBacklog, KeptName, LimitAdmin):
    """Classes of service."""

    form = TierForm
    queues_by = "tier"
    bounds = frozenset({*consequences.TIER_CAPS, "max_in_flight", "max_wait_seconds", "on_full", "max_held_jobs"})
    list_display = (
        *("name", "weight", "max_queued_jobs", "capacity", "max_in_flight", "aim", "in_time"),
        _duration("max_wait_seconds", "max wait"),
        *backlog.COLUMNS,
    )
    list_editable = ("weight", "max_queued_jobs", "max_in_flight")
    fieldsets = (
        (None, {"fields": ("name", "position", "service_tiers")}),
        ("Who goes first", {"fields": ("weight", "engine_priority", "uses_reserve")}),
        (
            "How much is taken",
            {
                "description": "Live within a second. Fails closed: without Redis nothing is taken.",
                "fields": (
                    *("max_wait_seconds", "max_queued_jobs", "max_queued_tokens", "max_queued_bytes"),
                    *("on_full", "hold_seconds", "max_held_jobs"),
                ),
            },
        ),
        (
            "How much runs at once",
            {
                "description": "Live within a second. Fails closed: jobs wait.",
                "fields": ("max_share", "max_in_flight", "gather_jobs", "gather_seconds", "max_attempts"),
            },
        ),
        (
            "Times, in seconds",
            {"fields": (*("start_deadline_seconds", "sync_start_deadline_seconds", "run_timeout_seconds"),)},
        ),
        (
            "Objective",
            {
                "description": "Shown as kept or missed over 5 min, 1 h and 24 h. It decides nothing.",
                "fields": ("objective_share", "target_wait_seconds"),
            },
        ),
    )

    @admin.display(description="objective", ordering="target_wait_seconds")
    def aim(self, tier: Tier) -> str:
        """Return the share of jobs that should start in time, and within which wait."""
        return shown.aim(objectives.stand(tier.objective_share, tier.target_wait_seconds, objectives.NOTHING))

    def taken_away(self, before: Any, after: Any, rows: list[QueueRow]) -> list[str]:
        """Return what lower caps of a tier do."""
        return consequences.of_tier(before, after, rows)


@admin.register(LengthClass)
class LengthClassAdmin(MakesQueues, WithBacklog, KeptName, LimitAdmin):
    """Classes of prompt length."""

    form = LengthClassForm
    queues_by = "length"
    bounds = frozenset({"max_in_flight"})
    list_display = ("name", "prompt_tokens", "max_in_flight", *backlog.COLUMNS)
    list_editable = ("max_in_flight",)

    @admin.display(description="prompt tokens")
    def prompt_tokens(self, length: LengthClass) -> str:
        """Return the bound in words."""
        bound = length.max_prompt_tokens
        return "all longer ones" if bound is None else f"up to {shown.count(bound)}"

    def taken_away(self, before: Any, after: Any, rows: list[QueueRow]) -> list[str]:
        """Return what a lower cap of a length class does."""
        return consequences.of_length(before, after, rows)


@admin.register(QueueLimit)
class QueueLimitAdmin(WithHalts, WithBacklog, KeptName, LimitAdmin):
    """Limits of single queues."""

    form = QueueLimitForm
    queues_by = "queue"
    bounds = frozenset({*consequences.QUEUE_CAPS, "max_in_flight", "is_paused", "is_draining"})
    halt = staticmethod(halts.halt_queues)
    halt_permission = halts.QUEUE_PERMISSION
    actions = ACTIONS
    list_display = (
        *("name", "state", "max_jobs", "cap", "capacity", "max_in_flight"),
        *("waiting", "running", "backlog", "expected_wait", "halted"),
    )
    ordering = ("queue",)
    list_editable = ("max_jobs", "max_in_flight")
    list_filter = ("is_paused", "is_draining")
    search_fields = ("queue",)
    readonly_fields = ("now", "halted")
    fieldsets = (
        (None, {"fields": ("queue",)}),
        (
            "How much is taken",
            {
                "description": "Live within a second. Fails closed: without Redis nothing is taken.",
                "fields": ("max_jobs", "max_tokens", "max_bytes", "now"),
            },
        ),
        (
            "How much runs",
            {
                "description": "Live within a second. Fails closed: jobs wait.",
                "fields": ("max_in_flight", "is_paused", "is_draining", "halted"),
            },
        ),
    )

    @admin.display(description="queue", ordering="queue")
    def name(self, row: QueueLimit) -> str:
        """Return its name, to be broken between its parts where it must."""
        return format_html_join(mark_safe(".<wbr>"), "{}", ((part,) for part in row.queue.split(".")))

    @display(description="state", label=STATES)
    def state(self, row: QueueLimit) -> str:
        """Return whether it is halted."""
        return PAUSED if row.is_paused else DRAINING if row.is_draining else OPEN

    @admin.display(description="cap")
    def cap(self, row: Any) -> str:
        """Return how many jobs may wait: by its own cap, else its tier's."""
        queues = getattr(row, "queues", [])
        return shown.count(queues[0].cap) if queues else shown.NONE

    @admin.display(description="now")
    def now(self, row: QueueLimit) -> str:
        """Return its cap and capacity, and how it drains, beside the fields that set it."""
        try:
            found = [queue for queue in selectors.queue_rows() if queue.queue == row.pk]
        except broker.BrokerAway:
            return shown.NONE
        return shown.NONE if not found else shown.drained(found[0])

    def taken_away(self, before: Any, after: Any, rows: list[QueueRow]) -> list[str]:
        """Return what lower caps, a pause or a drain do."""
        on_full = dict(Tier.objects.values_list("name", "on_full"))
        return [
            line for row in rows for line in consequences.of_queue(before, after, row, on_full=on_full[row.tier])
        ]

    def halting(self, action: halts.Action, names: Sequence[str]) -> list[str]:
        """Return what a pause or drain of these queues does."""
        say = consequences.paused if action is halts.Action.PAUSE else consequences.drained
        try:
            return [say(row) for row in selectors.queue_rows() if row.queue in names]
        except broker.BrokerAway:
            return [consequences.UNKNOWN]

    def save_model(self, request: HttpRequest, obj: QueueLimit, form: Any, change: bool) -> None:  # noqa: FBT001
        """Save; a pause or a drain ticked in the form is one as any other."""
        if not change:
            self.changed_with(request, obj, set(form.changed_data))
        super().save_model(request, obj, form, change)
        self._warn(request, obj)

    def _warn(self, request: HttpRequest, limit: QueueLimit) -> None:
        """Say what a cap means that is more than the queue's engines are good for now; it holds all the same."""
        for row in self.seen(request) or []:
            if row.queue == limit.queue:
                max_wait = Tier.objects.filter(name=row.tier).values_list("max_wait_seconds", flat=True).first()
                if told := consequences.above_capacity(limit.max_jobs, row, max_wait):
                    messages.warning(request, told)

    def changed_with(self, request: HttpRequest, obj: QueueLimit, changed: set[str]) -> Iterable[str]:
        """Note who halted or resumed the queue."""
        if not {"is_paused", "is_draining"} & changed:
            return ()
        before = QueueLimit.objects.filter(pk=obj.pk).first()
        halts.stamp(obj, was_halted=before is not None and before.is_halted, by=by(request))
        return halts.HALT_FIELDS
