"""Arithmetic on what was measured. Pure."""

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that `share` of all do not exceed. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    """Return the middle value. Raises ValueError for none."""
    return percentile(values, 0.5)


def mean(values: Sequence[float]) -> float:
    """Return the mean. Raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    return sum(values) / len(values)


def ratio(ours: float, baseline: float) -> float:
    """Return how many times the baseline ours is. Raises ValueError if the baseline measured nothing."""
    if baseline <= 0:
        raise ValueError("the baseline measured nothing")
    return ours / baseline


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the rise of y for one of x, by least squares. Raises ValueError if all have the same x."""
    mean_x, mean_y = mean([x for x, _ in points]), mean([y for _, y in points])
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread == 0:
        raise ValueError("a slope needs different x")
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
