"""docs/lifecycle.md says what states.py says."""

import re
from pathlib import Path

from inference.states import TERMINAL, TRANSITIONS, JobStatus

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"
ROW = re.compile(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", re.MULTILINE)
ARROW = re.compile(r"^    (\w+) --> (\w+)", re.MULTILINE)


def test_the_table_lists_every_transition_and_no_other() -> None:
    table = {name: frozenset(re.findall(r"`(\w+)`", left_to)) for name, left_to in ROW.findall(PAGE.read_text())}

    assert table == {str(s): frozenset(map(str, to)) for s, to in TRANSITIONS.items()}


def test_the_chart_draws_every_transition_and_no_other() -> None:
    drawn = set(ARROW.findall(PAGE.read_text()))

    assert drawn == {(str(s), str(to)) for s, targets in TRANSITIONS.items() for to in targets}


def test_terminal_statuses_are_those_that_nothing_leaves() -> None:
    assert {s for s in JobStatus if not TRANSITIONS[s]} == TERMINAL
