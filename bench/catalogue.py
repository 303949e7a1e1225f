"""All rows, in order. A new row is a module with a `ROW`, and a line here."""

from collections.abc import Mapping, Sequence
from typing import Final

from bench import (
    b01_throughput,
    b02_first_token,
    b03_realtime,
    b04_filling,
    b05_overload,
    b06_trace,
    b07_worker,
    b08_submissions,
    b10_backlog,
    b12_kills,
    b13_overshoot,
    b14_abort,
    b15_burst,
    s1_late_tenant,
    s2_shares,
    s3_lengths,
    s4_million_queued,
    s5_million_run,
    s6_returning,
)
from bench.row import Row

_MODULES: Final = (
    b01_throughput,
    b02_first_token,
    b03_realtime,
    b04_filling,
    b05_overload,
    b06_trace,
    b07_worker,
    b08_submissions,
    b10_backlog,
    b12_kills,
    b13_overshoot,
    b14_abort,
    b15_burst,
    s1_late_tenant,
    s2_shares,
    s3_lengths,
    s4_million_queued,
    s5_million_run,
    s6_returning,
)
ROWS: Final[Mapping[str, Row]] = {module.ROW.id: module.ROW for module in _MODULES}


def chosen(ids: Sequence[str]) -> list[Row]:
    """Return the rows named; if none is, all but those that are measured by name only. Raises ValueError."""
    if unknown := [id_ for id_ in ids if id_ not in ROWS]:
        raise ValueError(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}")
    return [row for id_, row in ROWS.items() if id_ in ids or not (ids or row.by_name_only)]
