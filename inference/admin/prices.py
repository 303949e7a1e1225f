"""What use costs, what may be spent, and what was."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest

from inference import budgets, charges, clock, consequences, limits
from inference.admin.base import LimitAdmin, ModelAdmin
from inference.admin.forms import LimitForm, PriceForm
from inference.admin.readonly import ReadOnly
from inference.models import Budget, Price, Usage
from inference.templatetags import shown


def _amount(field: str, description: str) -> Callable[[Price], str]:
    """Return a column that shows a price to the last digit, with its currency."""

    @admin.display(description=description, ordering=field)
    def column(price: Price) -> str:
        return f"{getattr(price, field).normalize():f} {settings.CURRENCY}"

    return column


@admin.register(Price)
class PriceAdmin(LimitAdmin):
    """The price list. A price that is in force is not changed: another one follows it."""

    form = PriceForm
    list_display = (
        *("model", "tiers", "valid_from"),
        _amount("prompt_per_million", "per million prompt tokens"),
        _amount("output_per_million", "per million output tokens"),
        _amount("per_engine_second", "per engine second"),
        "is_in_force",
    )
    list_filter = ("model", "tier")
    list_select_related = ("model", "tier")

    @admin.display(description="tier", ordering="tier")
    def tiers(self, price: Price) -> str:
        """Return the tier that it is for, or that it is for all which have none of their own."""
        return price.tier_id or "all tiers"

    @admin.display(description="began", boolean=True)
    def is_in_force(self, price: Price) -> bool:
        """Whether it has begun; the last that has is what counts."""
        return price.valid_from <= clock.reckoned()

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Keep a price that has begun as it is: use was charged by it."""
        may: bool = super().has_change_permission(request, obj)
        return may and (obj is None or obj.valid_from > clock.reckoned())


@admin.register(Budget)
class BudgetAdmin(LimitAdmin):
    """What tenants and keys may spend in a month."""

    form = LimitForm
    list_display = ("tenant", "api_key", "monthly", "spent", "share")
    list_editable = ("monthly",)
    list_display_links = ("tenant",)
    list_filter = ("tenant",)
    list_select_related = ("tenant", "api_key")
    fields = ("tenant", "api_key", "monthly")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """Keep whose budget it is: that of somebody else is another one."""
        others = (*super().get_readonly_fields(request, obj),)
        return (*others, "tenant", "api_key") if obj else others

    @admin.display(description="spent this month")
    def spent(self, budget: Budget) -> str:
        """Return what was spent of it."""
        return _with_currency(_spent(budget))

    @admin.display(description="share")
    def share(self, budget: Budget) -> str:
        """Return the part that is spent."""
        return shown.share(float(_spent(budget) / budget.monthly)) if budget.monthly else shown.NONE

    def consequences(self, request: HttpRequest, before: Any, after: Any, changed: set[str]) -> list[str]:  # noqa: ARG002
        """Return what a budget below what is spent does."""
        if "monthly" not in changed:
            return []
        return consequences.of_budget(before, after, spent=_spent(after), write=_with_currency)


def _with_currency(amount: Decimal) -> str:
    return f"{shown.money(amount)} {settings.CURRENCY}"


def _spent(budget: Budget) -> Decimal:
    key = budget.api_key.prefix if budget.api_key else ""
    known = limits.Budget(budget.tenant_id, key, charges.nano_of(budget.monthly))
    month = charges.month_of(charges.day_of(clock.reckoned()))
    return charges.amount(budgets.spent_by([known], month)[known.owner])


@admin.register(Usage)
class UsageAdmin(ReadOnly, ModelAdmin):
    """What was used, day by day; sums are at `/api/v1/usage/`."""

    list_display = (
        *("day", "tenant", "key", "model", "tier", "ended", "prompt", "output"),
        *("engine_seconds", "cost"),
    )
    list_filter = ("tenant", "model", "tier")
    search_fields = ("tenant", "api_key")
    date_hierarchy = "day"
    show_full_result_count = False
    fields = list_display

    @admin.display(description="API key", ordering="api_key")
    def key(self, row: Usage) -> str:
        """Return the prefix of the key, or where else the jobs came from."""
        return row.api_key or "dashboard"

    @admin.display(description="jobs", ordering="jobs")
    def ended(self, row: Usage) -> str:
        """Return how many runs ended."""
        return shown.count(row.jobs)

    @admin.display(description="prompt tokens", ordering="prompt_tokens")
    def prompt(self, row: Usage) -> str:
        """Return the tokens of their prompts."""
        return shown.count(row.prompt_tokens)

    @admin.display(description="output tokens", ordering="output_tokens")
    def output(self, row: Usage) -> str:
        """Return the tokens of their answers."""
        return shown.count(row.output_tokens)

    @admin.display(description="engine time")
    def engine_seconds(self, row: Usage) -> str:
        """Return the time in the engine."""
        return shown.seconds(row.engine_ms / 1000)

    @admin.display(description="cost")
    def cost(self, row: Usage) -> str:
        """Return what it cost, by the prices of the time."""
        return _with_currency(charges.amount(row.cost_nano))
