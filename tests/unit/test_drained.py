"""How long a queue's jobs wait, by what was claimed of late."""

from inference.admission.drained import HALF_MINUTE, NOTHING, Drained, drained
from inference.admission.windows import Window

NOW = 1_000_000_000
WIDTH = HALF_MINUTE.width_ms


def claims(*at_ms: int, jobs: int = 4) -> Window:
    window = Window(HALF_MINUTE)
    for at in at_ms:
        window.add(jobs, 0, at)
    return window


def test_a_rate_is_of_whole_buckets_since_the_oldest_job_came() -> None:
    every = [NOW - number * WIDTH for number in (4, 3, 2, 1)]
    moved = drained(claims(*every), NOW - 2 * WIDTH - 100, NOW)
    assert moved == Drained(jobs=8, ms=2 * WIDTH, waited_ms=2 * WIDTH + 100)
    assert moved.wait_ms(10) == 10 * 2 * WIDTH / 8


def test_nobody_is_expected_to_wait_for_less_than_the_oldest_has() -> None:
    assert Drained(jobs=8, ms=4_000, waited_ms=5_500).wait_ms(10) == 5_500


def test_what_is_measured_in_too_short_a_time_or_by_too_few_is_no_rate() -> None:
    assert Drained(jobs=8, ms=WIDTH - 1, waited_ms=300).wait_ms(1_000) == 300
    assert Drained(jobs=7, ms=WIDTH, waited_ms=300).wait_ms(1_000) == 300


def test_without_claims_or_jobs_nothing_is_known() -> None:
    assert drained(Window(HALF_MINUTE), NOW - 5_000, NOW) == NOTHING
    assert drained(claims(NOW), None, NOW) == NOTHING
    assert NOTHING.wait_ms(1_000) == 0


def test_while_nothing_is_claimed_the_oldest_job_waits_for_another_reason() -> None:
    assert drained(claims(NOW - 3 * WIDTH, NOW - 2 * WIDTH), NOW - 4 * WIDTH, NOW).waited_ms == 0


def test_after_a_pause_the_measure_begins_anew_with_the_first_whole_bucket() -> None:
    after = [NOW - number * WIDTH for number in (3, 2, 1)]
    moved = drained(claims(NOW - 10 * WIDTH, *after), NOW - 9 * WIDTH, NOW)
    assert moved == Drained(jobs=8, ms=2 * WIDTH, waited_ms=2 * WIDTH)
    assert moved == drained(claims(*after), NOW - 9 * WIDTH, NOW)


def test_in_the_bucket_in_which_it_begins_to_move_nothing_is_measured() -> None:
    assert drained(claims(NOW), NOW - 9 * WIDTH, NOW + WIDTH - 1).wait_ms(1_000) == 0


def test_what_moves_for_longer_than_is_known_is_measured_as_far_as_that() -> None:
    every = range(NOW - 20 * WIDTH, NOW + 1, WIDTH)
    assert drained(claims(*every), NOW - 30 * WIDTH, NOW).waited_ms == HALF_MINUTE.count * WIDTH
