"""What runs again, and docs/lifecycle.md says so."""

import re

from inference.retries import RULES
from inference.states import FailureReason, ReleaseReason
from tests.unit.test_lifecycle_page import PAGE

ROW = re.compile(r"^\| `(\w+)`:[^|]*\| (\w+) \| (\w+) \| (\w+) \| (\w+) \|$", re.MULTILINE)
TOO_OFTEN = {FailureReason.ATTEMPTS_EXHAUSTED, FailureReason.ENGINE_CRASH}
"""How jobs end that ran again before: in the text below the table."""


def said(is_so: object) -> str:
    return "yes" if is_so else "no"


def test_the_page_says_of_each_way_back_what_the_code_does() -> None:
    again = {name: cells for name, *cells in ROW.findall(PAGE.read_text()) if cells[0] == "yes"}

    assert again == {
        str(reason): ["yes", said(rule.costs_attempt), said(rule.counts_crash), said(rule.backoff)]
        for reason, rule in RULES.items()
    }


def test_the_page_names_every_failure_among_what_does_not_run_again() -> None:
    for_good = {name for name, is_again, *_ in ROW.findall(PAGE.read_text()) if is_again == "no"}

    assert for_good == {str(reason) for reason in FailureReason if reason not in TOO_OFTEN}
    assert all(f"`{reason}`" in PAGE.read_text() for reason in TOO_OFTEN)


def test_every_way_back_has_its_rule() -> None:
    assert set(RULES) == set(ReleaseReason)


def test_only_what_was_no_fault_has_nothing_to_wait_for() -> None:
    at_once = {reason for reason, rule in RULES.items() if rule.backoff is None}
    assert at_once == {ReleaseReason.DRAIN, ReleaseReason.RUNS_ALONE}
