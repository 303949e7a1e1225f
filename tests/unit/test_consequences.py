"""What an admin is asked about before a limit takes something away."""

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from inference import consequences
from inference.rows import QueueRow

ROW = QueueRow(
    queue="m.bulk.long",
    model="m",
    tier="bulk",
    length="long",
    jobs=12,
    tokens=3000,
    backlog_seconds=40.0,
    leases=4,
    cap=20,
    expected_wait_seconds=25.0,
)


class Row(SimpleNamespace):
    """A row of limits, by its fields alone."""

    def __str__(self) -> str:
        return str(self.name)


def queue(**changes: Any) -> Row:
    kept: dict[str, Any] = {"max_jobs": 20, "max_tokens": None, "max_bytes": None, "max_in_flight": None}
    kept |= {"is_paused": False, "is_draining": False}
    return Row(**kept | changes)


def tier(**changes: Any) -> Row:
    kept = {"name": "bulk", "max_queued_jobs": 100, "max_queued_tokens": None, "max_in_flight": None}
    kept |= {"max_wait_seconds": None, "max_queued_bytes": None, "on_full": "reject", "max_held_jobs": 5}
    return Row(**kept | changes)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_jobs": 12}, []),
        ({"max_jobs": 50}, []),
        ({"max_jobs": None}, []),
        ({"max_jobs": 11}, ["max jobs of 11 is below the 12 that there are now: new jobs get 429"]),
        ({"max_jobs": 0}, ["max jobs of 0: new jobs get 429."]),
        ({"max_tokens": 2999}, ["max tokens of 2\u202f999 is below the 3\u202f000"]),
        ({"max_in_flight": 3}, ["max in flight of 3 is below the 4 that there are now: no more start"]),
        ({"max_in_flight": 4}, []),
        ({"is_paused": True}, ["nothing of it would start until it is resumed; 12 jobs wait"]),
        ({"is_draining": True}, ["it would take no more jobs (503)"]),
    ],
)
def test_a_queues_change_is_asked_about_if_it_takes_something_away(
    changes: dict[str, Any], told: list[str]
) -> None:
    found = consequences.of_queue(queue(), queue(**changes), ROW, on_full="reject")
    assert len(found) == len(told)
    assert all(part in line for part, line in zip(told, found, strict=True))


def test_what_was_below_before_is_not_asked_about_again() -> None:
    assert consequences.of_queue(queue(max_jobs=5), queue(max_jobs=8), ROW, on_full="reject") == []
    paused = queue(is_paused=True), queue(is_paused=True, max_jobs=50)
    assert consequences.of_queue(*paused, ROW, on_full="reject") == []


@pytest.mark.parametrize(
    ("on_full", "told"),
    [
        ("reject", "new jobs get 429"),
        ("hold", "new calls are put on hold and other new jobs get 429"),
        ("spill", "new calls are put on hold and other new jobs spill"),
    ],
)
def test_a_lower_cap_is_told_by_what_full_queues_do(on_full: str, told: str) -> None:
    [closed] = consequences.of_queue(queue(), queue(max_jobs=0), ROW, on_full=on_full)
    assert closed.endswith("max jobs of 0: new jobs get 429."), "nothing is held or spilled that could not come in"
    [line] = consequences.of_queue(queue(), queue(max_jobs=11), ROW, on_full=on_full)
    assert line.endswith(f"now: {told} until there are fewer.")
    before, after = tier(on_full=on_full), tier(on_full=on_full, max_queued_jobs=11)
    assert consequences.of_tier(before, after, [ROW])[0].endswith(f"now: {told} until there are fewer.")
    after = tier(on_full=on_full, max_wait_seconds=20.0)
    assert consequences.of_tier(before, after, [ROW])[0].endswith(f"now: {told} until it is shorter.")


def test_a_tiers_caps_hold_for_each_of_its_queues_and_in_flight_for_each_model() -> None:
    rows = [ROW, replace(ROW, length="short", jobs=30), replace(ROW, model="n", leases=5)]
    [line] = consequences.of_tier(tier(), tier(max_queued_jobs=29), rows)
    assert "below the 30" in line
    assert consequences.of_tier(tier(), tier(max_in_flight=8), rows) == []
    assert "below the 8" in consequences.of_tier(tier(), tier(max_in_flight=7), rows)[0]
    assert "below the 25" in consequences.of_tier(tier(), tier(max_wait_seconds=20.0), rows)[0]


def test_the_end_of_holding_is_asked_about_and_its_begin_is_not() -> None:
    [line] = consequences.of_tier(tier(on_full="hold"), tier(), [ROW])
    assert line == "Tier bulk: calls that a full queue would take on hold get 429 at once."
    assert consequences.of_tier(tier(), tier(on_full="hold", max_held_jobs=0), [ROW]) == []


def test_fewer_on_hold_than_there_are_is_asked_about() -> None:
    before, rows = tier(on_full="hold"), [replace(ROW, on_hold=3)]
    [line] = consequences.of_tier(before, tier(on_full="hold", max_held_jobs=2), rows)
    assert "max held jobs of 2 is below the 3 that there are now: more calls get 429 at once" in line
    assert consequences.of_tier(before, tier(on_full="hold", max_held_jobs=3), rows) == []


def test_the_end_of_spilling_is_asked_about() -> None:
    [line] = consequences.of_tier(tier(on_full="spill"), tier(on_full="hold"), [ROW])
    assert line == "Tier bulk: jobs that a full queue would spill get 429. Those spilled come in as before."
    assert len(consequences.of_tier(tier(on_full="spill"), tier(), [ROW])) == 2


def test_a_model_that_is_disabled_says_what_would_not_start() -> None:
    on, off = (Row(name="m", enabled=on, max_in_flight=None, max_queued_bytes=None) for on in (True, False))
    assert consequences.of_model(on, off, [ROW, ROW]) == [
        "Disable model m: requests get 404; 24 jobs that wait would not start."
    ]
    assert consequences.of_model(off, on, [ROW]) == []


def test_a_tenants_caps_are_held_against_its_jobs() -> None:
    def tenant(**changes: Any) -> Row:
        kept = dict.fromkeys(
            ("max_queued_jobs", "max_unfinished_jobs", "requests_per_minute", "tokens_per_minute")
        )
        return Row(name="acme", **kept | changes)

    lower = tenant(max_queued_jobs=4, max_unfinished_jobs=9, requests_per_minute=0)
    queued, rate = consequences.of_tenant(tenant(), lower, queued=5, unfinished=9)
    assert queued.startswith(
        "Tenant acme: max queued jobs of 4 is below the 5 that there are now: new jobs get 429"
    )
    assert rate == "Tenant acme: requests per minute of 0: all get 429."


def test_a_revoked_key_says_what_it_leaves() -> None:
    def key(*, revoked: bool) -> Row:
        rates = dict.fromkeys(("requests_per_second", "requests_per_minute", "tokens_per_minute"))
        return Row(name="ci", tenant_id="acme", revoked=revoked, **rates)

    [line] = consequences.of_key(key(revoked=False), key(revoked=True), unfinished=0)
    assert line.endswith("for ever: requests with it get 401.")
    [line] = consequences.of_key(key(revoked=False), key(revoked=True), unfinished=1)
    assert "Revoke key ci of acme, for ever: requests with it get 401; 1 job that it sent" in line


def test_where_no_job_is_touched_none_is_told_of() -> None:
    empty = replace(ROW, jobs=0)
    told = [consequences.paused(empty), consequences.drained(empty), consequences.of_worker("w", 0)]
    on, off = (Row(name="m", enabled=on, max_in_flight=None, max_queued_bytes=None) for on in (True, False))
    told += consequences.of_model(on, off, [empty])
    assert not [line for line in told if "job" in line.replace("no more jobs (503)", "")]
    assert consequences.paused(replace(ROW, jobs=1)).endswith("; 1 job waits in it.")
    assert consequences.of_worker("w", 1).endswith("; 1 job that it runs goes on.")


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((1, 0, 0), "Cancel 1 queued job: it ends without an answer."),
        ((0, 2, 0), "Cancel 2 running jobs: they end without an answer."),
        ((1, 1, 0), "Cancel 1 queued and 1 running jobs: they end without an answer."),
        ((0, 1, 2), "Cancel 1 running job: it ends without an answer; 2 jobs have ended already and stay."),
    ],
)
def test_a_cancel_says_what_ends(counts: tuple[int, int, int], told: str) -> None:
    assert consequences.cancelled(*counts) == told


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("500", "300", "Budget of acme of 300 $ is below the 307 $ that is spent this month: what costs gets 429"),
        ("500", "0", "Budget of acme of 0 $: what costs gets 429 until the month ends."),
        ("500", "400", None),
        ("100", "200", None),
    ],
)
def test_a_budget_is_told_in_money(before: str, after: str, told: str | None) -> None:
    old, new = (Row(tenant_id="acme", monthly=Decimal(amount)) for amount in (before, after))
    found = consequences.of_budget(old, new, spent=Decimal(307), write=lambda amount: f"{amount} $")
    assert [line.startswith(told or "") for line in found] == ([True] if told else [])


@pytest.mark.parametrize(("cap", "wait"), [(None, ""), (100, ""), (101, "about 30 s"), (1000, "about 300 s")])
def test_a_cap_above_capacity_says_how_long_the_last_in_line_would_wait(cap: int | None, wait: str) -> None:
    told = consequences.above_capacity(cap, replace(ROW, capacity=100), 30.0)
    assert wait in told
    assert bool(told) == bool(wait)


@pytest.mark.parametrize("capacity", [None, 0])
def test_without_a_capacity_nobody_can_say_so(capacity: int | None) -> None:
    assert consequences.above_capacity(1000, replace(ROW, capacity=capacity), 30.0) == ""
