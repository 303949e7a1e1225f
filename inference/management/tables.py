"""Tables on a terminal."""

from collections.abc import Sequence
from typing import Final

GAP: Final = "  "


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """Return the rows under their heads, columns in line; those in `numbers` to the right."""
    lines = [heads, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    return "\n".join(_line(line, widths, numbers) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[int]) -> str:
    padded = (
        cell.rjust(width) if i in numbers else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return GAP.join(padded).rstrip()
