"""Credit: what a worker may still take."""

from hypothesis import given
from hypothesis import strategies as st

from workers import gate

CAPACITY = gate.Capacity(sequences=8, kv_tokens=1000, margin_tokens=10, largest_job_tokens=400)


def test_a_shut_gate_gives_nothing() -> None:
    assert gate.credit(CAPACITY, gate.Load(), is_open=False).is_spent


def test_what_is_in_flight_is_not_offered_again() -> None:
    load = gate.Load(sequences=3, kv_tokens=700)
    assert gate.credit(CAPACITY, load, is_open=True) == gate.Credit(5, 300, 10)


def test_all_sequences_taken_leave_no_sequence() -> None:
    assert gate.credit(CAPACITY, gate.Load(8, 100), is_open=True).sequences == 0


def test_a_full_cache_spends_the_credit_though_sequences_are_free() -> None:
    assert gate.credit(CAPACITY, gate.Load(2, 1000), is_open=True).is_spent


def test_an_idle_engine_offers_itself_to_the_largest_job_so_that_one_it_can_never_hold_is_failed() -> None:
    small = gate.Capacity(sequences=8, kv_tokens=100, margin_tokens=10, largest_job_tokens=400)
    assert gate.credit(small, gate.Load(), is_open=True).kv_tokens == 410
    assert not gate.fits_ever(400, small)


def test_a_busy_engine_offers_no_more_than_it_has() -> None:
    small = gate.Capacity(sequences=8, kv_tokens=100, margin_tokens=10, largest_job_tokens=400)
    assert gate.credit(small, gate.Load(1, 60), is_open=True).kv_tokens == 40


def test_an_empty_claim_means_empty_queues_only_if_the_largest_job_would_have_fitted() -> None:
    assert gate.is_hungry(gate.Credit(1, 409, 10), CAPACITY)
    assert not gate.is_hungry(gate.Credit(1, 410, 10), CAPACITY)


def test_a_job_counts_once_and_only_until_it_is_removed() -> None:
    in_flight = gate.InFlight()
    in_flight.add("a", 30)
    in_flight.add("a", 30)
    in_flight.add("b", 5)
    assert in_flight.load == gate.Load(2, 35)
    in_flight.remove("a")
    in_flight.remove("a")
    assert in_flight.load == gate.Load(1, 5)


@given(st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=60))
def test_jobs_taken_within_credit_never_exceed_the_engine(steps: list[tuple[int, bool]]) -> None:
    in_flight = gate.InFlight()
    held: list[int] = []
    for number, (tokens, ends_one) in enumerate(steps):
        if ends_one and held:
            in_flight.remove(held.pop(0))
        credit = gate.credit(CAPACITY, in_flight.load, is_open=True)
        if credit.sequences and tokens + credit.margin_tokens <= credit.kv_tokens:
            in_flight.add(number, tokens + credit.margin_tokens)
            held.append(number)
        assert in_flight.load.sequences <= CAPACITY.sequences
        assert in_flight.load.kv_tokens <= CAPACITY.kv_tokens
