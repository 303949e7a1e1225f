"""What use costs, to the last billionth."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import charges
from inference.charges import Price, PriceList, Used

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def make_price(**overrides: Any) -> Price:
    values: dict[str, Any] = {
        "model": "m",
        "tier": None,
        "prompt_per_million": Decimal("0.150"),
        "output_per_million": Decimal("0.600"),
        "per_engine_second": Decimal("0.000125"),
        "valid_from": NOW,
    }
    return Price(**values | overrides)


def test_tokens_and_engine_time_add_up() -> None:
    price = make_price()

    assert price.units.nano(Used(1_000_000, 0, 0)) == 150_000_000
    assert price.units.nano(Used(0, 1_000_000, 0)) == 600_000_000
    assert price.units.nano(Used(0, 0, 1_000)) == 125_000
    assert price.units.nano(Used(1, 1, 1)) == 150 + 600 + 125


@given(
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.decimals(0, 10**6, places=charges.TOKEN_DECIMALS),
    st.decimals(0, 10**6, places=charges.SECOND_DECIMALS),
)
def test_no_cost_is_rounded(
    prompt: int, output: int, ms: int, token_price: Decimal, second_price: Decimal
) -> None:
    price = make_price(
        prompt_per_million=token_price, output_per_million=token_price * 2, per_engine_second=second_price
    )
    exact = (prompt + 2 * output) * token_price / 10**6 + ms * second_price / 1000

    assert charges.amount(price.units.nano(Used(prompt, output, ms))) == exact
    assert charges.nano_of(exact) == price.units.nano(Used(prompt, output, ms))


def test_a_price_finer_than_what_is_counted_is_refused() -> None:
    with pytest.raises(ValueError, match=r"0\.0001"):
        make_price(prompt_per_million=Decimal("0.0001")).units  # noqa: B018 - it is what raises


def test_the_latest_price_that_holds_already_is_taken() -> None:
    old, new = make_price(valid_from=NOW - timedelta(days=9)), make_price(valid_from=NOW)
    prices = PriceList.of([old, make_price(valid_from=NOW + timedelta(days=1)), new])

    assert prices.price("m", "bulk", NOW) is new
    assert prices.price("m", "bulk", NOW - timedelta(microseconds=1)) is old
    assert prices.price("m", "bulk", NOW - timedelta(days=10)) is None


def test_a_tiers_own_price_goes_before_the_models_however_old_it_is() -> None:
    own = make_price(tier="bulk", valid_from=NOW - timedelta(days=100))
    prices = PriceList.of([make_price(), own])

    assert prices.price("m", "bulk", NOW) is own
    assert prices.price("m", "standard", NOW) is not own


def test_what_has_no_price_costs_nothing() -> None:
    assert charges.NO_PRICES.units("m", "bulk", NOW) == charges.FREE


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), date(2026, 12, 31)),
        (datetime.fromisoformat("2027-01-01T00:30:00+01:00"), date(2026, 12, 31)),
    ],
)
def test_days_are_those_of_utc(moment: datetime, day: date) -> None:
    assert charges.day_of(moment) == day


@pytest.mark.parametrize(
    ("day", "following"),
    [
        (date(2026, 1, 31), date(2026, 2, 1)),
        (date(2026, 12, 1), date(2027, 1, 1)),
        (date(2028, 2, 29), date(2028, 3, 1)),
    ],
)
def test_a_month_ends_where_the_next_begins(day: date, following: date) -> None:
    assert charges.next_month(day) == following
