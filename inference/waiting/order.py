"""How many jobs of others go before one: estimates from counts, whatever their number."""

import math
from collections.abc import Iterable


def ahead_of_other_tenants(*, own_ahead: int, tenants_first: int, tenants: int, weight: float, jobs: int) -> int:
    """Estimate the other tenants' jobs that go first, of the `jobs` that they have.

    `tenants_first` of the `tenants` have their next turn before this one. Then all take turns, this one as often
    as its weight says; the others are taken to weigh 1.
    """
    turns = tenants_first + own_ahead * max(0, tenants - 1) / weight
    return min(jobs, math.ceil(turns))


def ahead_of_other_tiers(*, ahead: int, weight: float, others: Iterable[tuple[float, int]]) -> int:
    """Estimate the other tiers' jobs that go first: of each (weight, jobs) as the weights say, if it has them."""
    return sum(min(jobs, int((ahead + 1) * other / weight)) for other, jobs in others)
