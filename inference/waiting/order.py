"""How many jobs of other tiers go before one: an estimate from counts, whatever their number."""

from collections.abc import Iterable


def ahead_of_other_tiers(*, ahead: int, weight: float, others: Iterable[tuple[float, int]]) -> int:
    """Estimate the other tiers' jobs that go first: of each (weight, jobs) as the weights say, if it has them."""
    return sum(min(jobs, int((ahead + 1) * other / weight)) for other, jobs in others)
