"""Verbs on what budgets count; `lua/spending.lua` says what that is. Amounts are billionths of the currency."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final, NamedTuple

from inference.broker import base, scripts

KEPT_SECONDS: Final = 40 * 24 * 3600
"""Longer than a month."""


class Standing(NamedTuple):
    """How a payer stands in a month."""

    spent: int | None
    """By ended jobs; None: not read from the database yet."""
    reserved: int
    """By unfinished jobs, as expected."""


class SpendingVerbs(base.Verbs):
    """What admission, the control worker and pages ask. A payer is `limits.Budget.owner`."""

    def begin_spending(self, payers: Sequence[str], month: date) -> dict[str, int]:
        """Begin to read the payers' spending from the database: what is acknowledged from now on counts apart."""
        numbers = self._call("spending_begin", text_of(month), KEPT_SECONDS * 1000, *payers) if payers else []
        return dict(zip(payers, numbers, strict=True))

    def end_spending(self, begun: Mapping[str, int], month: date, spent: Mapping[str, int]) -> int:
        """Set what was read since `begin_spending` answered. Says of how many; later reads set the others."""
        rows: list[scripts.Argument] = []
        for payer, number in begun.items():
            rows += (payer, number, spent[payer])
        return int(self._call("spending_end", text_of(month), *rows)) if begun else 0

    def spending(self, payers: Sequence[str], month: date) -> dict[str, Standing]:
        """Return how the payers stand."""
        rows = self._call("spending_now", text_of(month), *payers) if payers else []
        found = [Standing(None if spent == b"" else int(spent), int(reserved)) for spent, reserved in rows]
        return dict(zip(payers, found, strict=True))

    def sweep_costs(self, payer: str, cursor: str = "0", count: int = 500) -> tuple[str, int]:
        """Drop what a payer reserves for jobs that are nowhere, and say for how many; as `sweep` of a tenant."""
        after, dropped = self._call("spending_sweep", payer, cursor, count)
        return after.decode(), dropped


def text_of(month: date) -> str:
    """Return the month as keys have it."""
    return f"{month.year:04}-{month.month:02}"  # strftime takes many times as long, at every submission
