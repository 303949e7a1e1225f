"""How full a queue is, as shares of what may wait in it. Pure."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

LOW: Final = 0.5
"""Below it spilled jobs are fed back."""
WARNING: Final = 0.7
"""Up to it they are; from it on, more workers would help."""
EMERGENCY: Final = 0.9


class Watermark(StrEnum):
    """The highest that a queue has reached."""

    NONE = ""
    LOW = "low"
    WARNING = "warning"
    EMERGENCY = "emergency"


def share(*used: tuple[int, int | None]) -> float:
    """Return the largest share of values in their limits; None bounds nothing, and 0 is always full."""
    return max((value / limit if limit else 1.0 for value, limit in used if limit is not None), default=0.0)


def reached(share: float) -> Watermark:
    """Return the highest mark that a share has reached."""
    marks: Iterable[tuple[float, Watermark]] = (
        (EMERGENCY, Watermark.EMERGENCY),
        (WARNING, Watermark.WARNING),
        (LOW, Watermark.LOW),
    )
    return next((mark for least, mark in marks if share >= least), Watermark.NONE)
