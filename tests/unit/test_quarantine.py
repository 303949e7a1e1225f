"""A worker takes jobs that must run alone with time for others between them."""

from workers.quarantine import Quarantine


def test_the_first_is_due_at_once() -> None:
    assert Quarantine().due_ms(now=100.0) == 0


def test_the_next_is_due_when_the_worker_was_open_for_twice_as_long_as_it_was_shut() -> None:
    quarantine = Quarantine()
    quarantine.begin(now=100.0)
    quarantine.end(now=103.0)
    assert [quarantine.due_ms(now=now) for now in (103.0, 105.0, 109.0, 200.0)] == [6000, 4000, 0, 0]
