"""Tables as files: CSV that a spreadsheet opens without running anything, sent as it is read."""

import csv
import io
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Final, TypeVar

from inference import executor
from inference.api import sse

T = TypeVar("T")
Cell = str | int | float
Page = Callable[[T | None], tuple[Iterable[Sequence[Cell]], T | None]]

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001 - spreadsheets take them
"""What a cell begins with that a spreadsheet takes for a formula."""


def lines(rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return the rows as CSV (RFC 4180). Texts that look like a formula get an apostrophe in front."""
    text = io.StringIO()
    csv.writer(text).writerows([_safe(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def stream(name: str, heads: Sequence[str], page: Page[T]) -> sse.Stream:
    """Return a download of many rows. `page` reads the next ones, in a thread, from a place; None: the first."""
    response = sse.Stream(_pages(heads, page), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


async def _pages(heads: Sequence[str], page: Page[T]) -> AsyncGenerator[bytes, None]:
    yield lines([heads])
    place: T | None = None
    while True:
        rows, place = await executor.run(page, place)
        yield lines(rows)
        if place is None:
            return


def _safe(cell: Cell) -> Cell:
    is_formula = isinstance(cell, str) and cell.lstrip(" ").startswith(FORMULA)
    return f"'{cell}" if is_formula else cell
