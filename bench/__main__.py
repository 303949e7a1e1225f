"""`python -m bench [B1 B2 …]`: measure rows, all B rows if none is named, and write the results."""

import argparse
import sys
import time
from collections.abc import Callable

from bench import catalogue, machine, report
from bench.row import Measured, Row, Say


def main(arguments: list[str]) -> int:
    """Measure, print and write; the status is 1 if a row could not be measured, not if it falls short."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {' '.join(catalogue.ROWS)}; default: all B")
    parser.add_argument("--rehearse", action="store_true", help="small sizes where a row has some; writes nothing")
    options = parser.parse_args(arguments)
    try:
        rows = catalogue.chosen(options.rows)
    except ValueError as error:
        parser.error(str(error))
    take = _rehearse if options.rehearse else _measure
    return 0 if all([take(row) for row in rows]) else 1  # noqa: C419 - all are to be measured


def _measure(row: Row) -> bool:
    facts = machine.facts()
    measured = _run(row, row.measure)
    if measured is None:
        return False
    report.save(report.merge(report.load(), {row.id: report.entry(row, measured, facts)}))
    return True


def _rehearse(row: Row) -> bool:
    return _run(row, row.rehearse or row.measure) is not None


def _run(row: Row, measure: Callable[[Say], Measured]) -> Measured | None:
    _say(f"{row.id} {row.text}")
    try:
        measured = measure(lambda text: _say(f"{row.id} … {text}"))
    except Exception as error:  # the other rows are measured all the same
        _say(f"{row.id} FAILED: {type(error).__name__}: {error}")
        return None
    for name, value in measured.figures.items():
        _say(f"{row.id}   {name} {value:.4g}")
    for line in report.lines(row, measured):
        print(line, flush=True)  # noqa: T201 - the results
    return measured


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
