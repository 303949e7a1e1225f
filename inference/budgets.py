"""Budgets against what was spent: the figure in Redis that admission goes by, held against the database.

Fails closed: while it is not known what was spent, a payer's jobs are refused (503) and not let through. What jobs
in flight will cost is an estimate; what they really cost counts as soon as they end.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time

from django.db.models import Sum

from inference import broker, charges, snapshot
from inference.limits import Budget
from inference.models import Usage


@dataclass(frozen=True, slots=True)
class Spending:
    """A budget, and what this month has taken of it."""

    budget: Budget
    spent_nano: int
    """By jobs that ended."""
    month: date

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.budget.tenant

    @property
    def key(self) -> str:
        """The key's public part; empty for the whole tenant."""
        return self.budget.key

    @property
    def ends_at(self) -> datetime:
        """When the month ends."""
        return end_of(self.month)


def end_of(month: date) -> datetime:
    """Return the moment at which the month ends and spending begins anew."""
    return datetime.combine(charges.next_month(month), time(), tzinfo=UTC)


def spending(tenant: str | None, now: datetime) -> list[Spending]:
    """Return every budget of the tenant (None: of all) with what the database says was spent this month."""
    month = charges.month_of(charges.day_of(now))
    found = [b for b in snapshot.limits().budgets.values() if tenant in {None, b.tenant}]
    spent = spent_by(found, month)
    return [Spending(budget, spent[budget.owner], month) for budget in found]


def spent_by(budgets: Collection[Budget], month: date) -> dict[str, int]:
    """Return what each budget's owner spent in the month, in billionths of the currency."""
    tenants = {budget.tenant for budget in budgets}
    rows = Usage.objects.filter(tenant__in=tenants, day__gte=month, day__lt=charges.next_month(month))
    costs = rows.order_by().values_list("tenant", "api_key").annotate(cost=Sum("cost_nano"))
    found: dict[str, int] = {}
    for tenant, key, cost in costs:
        for owner in (Budget(tenant, "", 0).owner, Budget(tenant, key, 0).owner if key else ""):
            found[owner] = found.get(owner, 0) + int(cost)
    return {budget.owner: found.get(budget.owner, 0) for budget in budgets}


def refresh(budgets: Iterable[Budget], now: datetime) -> int:
    """Hold the figures in Redis against the database. Says how many were set.

    Safe beside finishes, admissions and other refreshes: what is acknowledged meanwhile counts twice until the
    next one at worst, and never not at all. Raises broker.BrokerAway and django.db.Error.
    """
    found, month = list(budgets), charges.month_of(charges.day_of(now))
    begun = broker.get_broker().begin_spending([budget.owner for budget in found], month)
    return broker.get_broker().end_spending(begun, month, spent_by(found, month))
