"""Usage, as the native API is asked for it and shows it."""

import functools
from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference import budgets, charges, clock, errors, fields, usage
from inference.api.serializers.told import DayField, TextField
from inference.submission import Caller


class SpanSerializer(serializers.Serializer[Any]):
    """Whose usage of which days."""

    tenant = TextField(required=False, max_length=64, help_text="Operators only; without it, everyone's.")

    def get_fields(self) -> dict[str, Any]:
        """Add `from`, which no attribute may be called."""
        first = DayField(required=False, help_text="First day, of UTC; else the month's of `to`.")
        last = DayField(required=False, help_text="Last day, of UTC; else today.")
        return {"from": first, "to": last, **super().get_fields()}

    def span(self, caller: Caller) -> usage.Span:
        """Return what the caller may see of it. Raises errors.InvalidRequest, errors.Forbidden."""
        asked: Mapping[str, Any] = self.validated_data
        last = asked.get("to") or charges.day_of(clock.reckoned())
        return usage.Span(asked.get("from") or charges.month_of(last), last, _tenant(caller, asked.get("tenant")))


class UsageAskedSerializer(SpanSerializer):
    """The same, and what to sum up by."""

    group_by = TextField(
        default="day", allow_blank=True, help_text=f"Any of {', '.join(usage.GROUPS)}, with commas between."
    )

    def validate_group_by(self, value: str) -> list[str]:
        """Split the names."""
        names = list(dict.fromkeys(value.split(",")))
        if unknown := [name for name in names if name not in usage.GROUPS]:
            rule = f"must be names with commas between, of {', '.join(usage.GROUPS)}"
            raise serializers.ValidationError(f"{rule}, not {fields.show(unknown[0])}")
        return names


USAGE_SPAN: Final = tuple(SpanSerializer().fields)
USAGE: Final = tuple(UsageAskedSerializer().fields)
"""The names of their parameters."""


class SumsSerializer(serializers.Serializer[Any]):
    """What was used."""

    jobs = serializers.IntegerField(help_text="Runs that ended; a job retried by hand counts again.")
    prompt_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    engine_seconds = serializers.FloatField(help_text="Time in the engine.")
    cost = serializers.SerializerMethodField(help_text="Exact, by the prices of the time.")

    @extend_schema_field(serializers.CharField)
    def get_cost(self, sums: charges.Sums) -> str:
        """Return the amount as text: a number would be rounded by who reads it."""
        return charges.money(sums.cost)


class UsageRowSerializer(SumsSerializer):
    """What one group used."""

    day = serializers.DateField(required=False)
    month = serializers.DateField(required=False, help_text="Its first day.")
    tenant = serializers.CharField(required=False)
    key = serializers.CharField(required=False, help_text="Its public part; empty for users of the dashboard.")
    key_name = serializers.CharField(required=False, help_text="With `key`; empty if the key is deleted.")
    model = serializers.CharField(required=False)
    tier = serializers.CharField(required=False)

    def to_representation(self, instance: usage.UsageRow) -> dict[str, Any]:
        """Return the group, then its sums."""
        name = {"key_name": instance.key_name} if "key" in instance.group else {}
        return {**instance.group, **name, **self._sums.to_representation(instance.sums)}

    @functools.cached_property
    def _sums(self) -> SumsSerializer:
        """One for all rows: making its fields takes far longer than showing a row."""
        return SumsSerializer()


class BudgetSerializer(serializers.Serializer[Any]):
    """A budget and what this month has taken of it."""

    tenant = serializers.CharField()
    key = serializers.CharField(help_text="Its public part; empty for the whole tenant.")
    monthly = serializers.SerializerMethodField()
    spent = serializers.SerializerMethodField()
    ends_at = serializers.DateTimeField(help_text="When the month ends, and spending begins anew.")

    @extend_schema_field(serializers.CharField)
    def get_monthly(self, budget: budgets.Spending) -> str:
        """Return the budget."""
        return charges.money(charges.amount(budget.budget.nano))

    @extend_schema_field(serializers.CharField)
    def get_spent(self, budget: budgets.Spending) -> str:
        """Return what ended jobs cost."""
        return charges.money(charges.amount(budget.spent_nano))


def _tenant(caller: Caller, wanted: str | None) -> str | None:
    if caller.is_operator:
        return wanted
    if wanted not in {None, caller.tenant}:
        message = "This key sees the usage of its own tenant only: an admin can make it an operator's."
        raise errors.Forbidden(message, code="operator_required", param="tenant")
    return caller.tenant
