"""From what the changes of one commit used to what is added to the sums of usage. Pure."""

from collections.abc import Iterable
from datetime import datetime

from inference import charges
from inference.charges import PriceList, Sums, Used
from inference.lifecycle.statements import Booking, Found
from inference.lifecycle.transitions import Row


def priced(job: Found, after: Row, prices: PriceList, now: datetime) -> Row:
    """Return the row with the cost of what it used more than before, by the price that holds now."""
    more = Used(*(new - old for new, old in zip(after.used, job.row.used, strict=True)))
    cost = prices.units(job.model, job.tier, now).nano(more) if any(more) else 0
    return after._replace(cost_nano=after.cost_nano + cost) if cost else after


def of(jobs: Iterable[Found], now: datetime) -> list[Booking]:
    """Return what the jobs add to each row of usage, that of the day of `now`."""
    day, found = charges.day_of(now), dict[tuple[str, str, str, str], Sums]()
    for job in jobs:
        more = Sums(job.ended, *_more(job))
        if any(more):
            place = (job.tenant, charges.public_part(job.api_key_id), job.model, job.tier)
            found[place] = found.get(place, Sums()).plus(more)
    return [Booking(tenant, day, key, model, tier, *sums) for (tenant, key, model, tier), sums in found.items()]


def _more(job: Found) -> tuple[int, int, int, int]:
    read, row = job.read, job.row
    used = (new - old for new, old in zip(row.used, read.used, strict=True))
    return (*used, row.cost_nano - read.cost_nano)  # type: ignore[return-value]  # three and one
