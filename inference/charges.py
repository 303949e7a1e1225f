"""What use costs: token counts, engine time and prices in, whole billionths of the currency out. Pure, and exact.

A price has at most three decimals per million tokens and six per engine second; time is counted in milliseconds.
So each token and each millisecond costs a whole number of billionths, and no sum is ever rounded.
"""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

NANO: Final = 10**9
"""Billionths in one unit of the currency."""
TOKEN_DECIMALS: Final = 3
"""Of a price per million tokens."""
SECOND_DECIMALS: Final = 6
"""Of a price per engine second."""
_CENT: Final = Decimal("0.01")
_PER_TOKEN: Final = NANO // 10**6
_PER_MILLISECOND: Final = NANO // 10**3


class Used(NamedTuple):
    """What was used, or one more piece of it."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    engine_ms: int = 0
    """Time in the engine, in milliseconds."""


class Sums(NamedTuple):
    """Use of any number of jobs."""

    jobs: int = 0
    """Runs that ended."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    engine_ms: int = 0
    cost_nano: int = 0
    """Billionths of the currency."""

    @property
    def tokens(self) -> int:
        """Of prompts and outputs."""
        return self.prompt_tokens + self.output_tokens

    @property
    def engine_seconds(self) -> float:
        """Time in the engine."""
        return self.engine_ms / 1000

    @property
    def cost(self) -> Decimal:
        """Amount of the currency."""
        return amount(self.cost_nano)

    def plus(self, other: "Sums") -> "Sums":
        """Return both together."""
        return Sums(*map(operator.add, self, other))


class UnitCosts(NamedTuple):
    """What one of each costs, in billionths of the currency."""

    prompt_token: int = 0
    output_token: int = 0
    engine_ms: int = 0

    def nano(self, used: Used) -> int:
        """Return what the use costs."""
        return sum(map(operator.mul, self, used))


FREE: Final = UnitCosts()


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What one model costs, in one tier or in all that have no price of their own, from a moment on."""

    model: str
    tier: str | None
    prompt_per_million: Decimal
    output_per_million: Decimal
    per_engine_second: Decimal
    valid_from: datetime

    @property
    def units(self) -> UnitCosts:
        """The price of each unit."""
        return UnitCosts(
            _whole(self.prompt_per_million, _PER_TOKEN),
            _whole(self.output_per_million, _PER_TOKEN),
            _whole(self.per_engine_second, _PER_MILLISECOND),
        )


@dataclass(frozen=True, slots=True)
class PriceList:
    """All prices, past and announced, ordered for the question that every finish asks."""

    _latest_first: Mapping[tuple[str, str | None], tuple[Price, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, prices: Iterable[Price]) -> "PriceList":
        """Order the prices."""
        found: dict[tuple[str, str | None], list[Price]] = {}
        for price in sorted(prices, key=lambda price: price.valid_from, reverse=True):
            found.setdefault((price.model, price.tier), []).append(price)
        return cls({place: tuple(prices) for place, prices in found.items()})

    def price(self, model: str, tier: str, now: datetime) -> Price | None:
        """Return the price that holds now: the tier's own before the model's; None: it costs nothing."""
        for place in ((model, tier), (model, None)):
            for price in self._latest_first.get(place, ()):
                if price.valid_from <= now:
                    return price
        return None

    def units(self, model: str, tier: str, now: datetime) -> UnitCosts:
        """Return what each unit costs now."""
        price = self.price(model, tier, now)
        return FREE if price is None else price.units


NO_PRICES: Final = PriceList()


def amount(nano: int) -> Decimal:
    """Return billionths as an amount of the currency, with all nine decimals."""
    return Decimal(nano).scaleb(-9)


def money(amount: Decimal) -> str:
    """Write an amount in full, with two decimals at least."""
    whole, _, rest = f"{amount:.9f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def readable(amount: Decimal) -> str:
    """Write an amount as people read it: two decimals, and of less than one cent the first two that count."""
    places = 2 if not amount or amount >= _CENT else min(9, 1 - amount.adjusted())
    return f"{amount:,.{places}f}".replace(",", "\u202f")


def nano_of(money: Decimal) -> int:
    """Return an amount of the currency in billionths. Raises ValueError for more than nine decimals."""
    return _whole(money, NANO)


def public_part(api_key_id: str | None) -> str:
    """Return the part of a key that usage is kept by, and people may see; empty for users of the dashboard."""
    return "" if api_key_id is None else api_key_id.partition(".")[0]


def day_of(now: datetime) -> date:
    """Return the day of use: UTC's."""
    return now.astimezone(UTC).date()


def month_of(day: date) -> date:
    """Return the first day of the month."""
    return day.replace(day=1)


def next_month(day: date) -> date:
    """Return the first day of the month after."""
    return month_of(month_of(day) + timedelta(days=31))


def _whole(price: Decimal, times: int) -> int:
    scaled = price * times
    if scaled != int(scaled):
        raise ValueError(f"{price} has more decimals than are counted")
    return int(scaled)
