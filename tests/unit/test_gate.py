"""Credit: what a worker may still take."""

from hypothesis import given
from hypothesis import strategies as st

from inference import guards
from inference.guards import NO_ROOM, Credit, Room
from workers import gate

CAPACITY = gate.Capacity(sequences=8, kv_tokens=1000, margin_tokens=10, largest_job_tokens=400)
RESERVE = Room(1, 200)


def test_a_shut_gate_gives_nothing() -> None:
    assert gate.credit(CAPACITY, gate.Load(), is_open=False) == gate.NONE


def test_what_is_in_flight_is_not_offered_again() -> None:
    load = gate.Load(sequences=3, kv_tokens=700)
    assert gate.credit(CAPACITY, load, is_open=True) == Credit(5, 300, 10, may_park=True)


def test_all_sequences_taken_leave_nothing() -> None:
    assert gate.credit(CAPACITY, gate.Load(8, 100), is_open=True) == gate.NONE


def test_a_full_cache_leaves_no_token_though_sequences_are_free() -> None:
    assert gate.credit(CAPACITY, gate.Load(2, 1000), is_open=True).kv_tokens == 0


def test_an_idle_engine_offers_itself_to_the_largest_job_so_that_one_it_can_never_hold_is_failed() -> None:
    small = gate.Capacity(sequences=8, kv_tokens=100, margin_tokens=10, largest_job_tokens=400)
    offered = gate.credit(small, gate.Load(), is_open=True, reserve=RESERVE)
    assert (offered.kv_tokens, offered.reserve, offered.may_park) == (410, Room(1, 0), False)
    assert not gate.fits_ever(400, small)


def test_a_busy_engine_offers_no_more_than_it_has() -> None:
    small = gate.Capacity(sequences=8, kv_tokens=100, margin_tokens=10, largest_job_tokens=400)
    assert gate.credit(small, gate.Load(1, 60), is_open=True).kv_tokens == 40


def test_an_engine_of_eight_slots_reserves_one_and_the_share_of_its_cache() -> None:
    assert guards.reserve(Room(8, 1000), 0.05) == Room(1, 50)


def test_a_large_engine_reserves_its_share_of_slots() -> None:
    assert guards.reserve(Room(64, 32_000), 0.05) == Room(3, 1600)


def test_a_small_engine_reserves_nothing_and_nor_does_one_that_is_told_so() -> None:
    assert guards.reserve(Room(7, 1000), 0.05) == NO_ROOM
    assert guards.reserve(Room(8, 1000), 0) == NO_ROOM


def test_the_reserve_is_the_last_part_of_what_is_free() -> None:
    offered = gate.credit(CAPACITY, gate.Load(6, 700), is_open=True, reserve=RESERVE)
    assert (offered.sequences, offered.kv_tokens, offered.reserve) == (2, 300, RESERVE)
    nearly_full = gate.credit(CAPACITY, gate.Load(7, 900), is_open=True, reserve=RESERVE)
    assert (nearly_full.sequences, nearly_full.kv_tokens, nearly_full.reserve) == (1, 100, Room(1, 100))


def test_an_idle_engine_holds_nothing_of_its_cache_back_from_a_job_that_needs_it() -> None:
    tight = gate.Capacity(sequences=8, kv_tokens=500, margin_tokens=10, largest_job_tokens=400)
    assert gate.credit(tight, gate.Load(), is_open=True, reserve=RESERVE).reserve == Room(1, 90)


def test_a_share_is_taken_from_what_a_tier_holds() -> None:
    assert gate.share(CAPACITY, Room(3, 200), 0.5) == Room(1, 300)
    assert gate.share(CAPACITY, Room(5, 600), 0.5) == NO_ROOM


def test_a_share_has_room_for_one_job_of_any_size_however_small_it_is() -> None:
    assert gate.share(CAPACITY, NO_ROOM, 0.01) == Room(1, 410)


def test_an_empty_claim_means_empty_queues_only_if_the_largest_job_of_any_tier_would_have_fitted() -> None:
    assert gate.is_hungry(Credit(1, 409, 10), [], CAPACITY)
    assert not gate.is_hungry(Credit(1, 410, 10), [], CAPACITY)
    assert gate.is_hungry(Credit(1, 1000, 10, reserve=Room(1, 0)), [], CAPACITY)
    assert gate.is_hungry(Credit(2, 500, 10, reserve=Room(1, 100)), [], CAPACITY)
    assert gate.is_hungry(Credit(2, 500, 10), [Room(0, 900)], CAPACITY)
    assert not gate.is_hungry(Credit(2, 500, 10), [Room(1, 410)], CAPACITY)


def loaded(*jobs: tuple[str, int], parked: int) -> gate.InFlight:
    in_flight = gate.InFlight()
    for number, (tier, tokens) in enumerate(jobs):
        in_flight.add(number, tier, tokens)
    in_flight.add("parked", "bulk", parked, is_parked=True)
    return in_flight


def test_while_a_job_is_parked_only_tiers_with_the_reserve_get_what_fits_beside_it() -> None:
    in_flight = loaded(("bulk", 300), ("realtime", 50), parked=700)
    offered = gate.credit(CAPACITY, in_flight.load, is_open=True, reserve=RESERVE, reserve_tiers=["realtime"])
    assert offered == Credit(5, 250, 10, reserve=Room(5, 250))


def test_beside_a_parked_job_no_more_is_offered_than_is_free_now() -> None:
    in_flight = loaded(("bulk", 900), parked=700)
    offered = gate.credit(CAPACITY, in_flight.load, is_open=True, reserve_tiers=["realtime"])
    assert offered.kv_tokens == 100


def test_nothing_is_offered_beside_a_parked_job_that_needs_all() -> None:
    in_flight = loaded(("bulk", 300), parked=1000)
    assert gate.credit(CAPACITY, in_flight.load, is_open=True, reserve_tiers=["realtime"]) == gate.NONE


def test_a_parked_job_starts_when_it_fits_beside_those_that_run() -> None:
    in_flight = loaded(("bulk", 300), ("bulk", 100), parked=700)
    assert not gate.may_start(CAPACITY, in_flight.load)
    in_flight.remove(1)
    assert gate.may_start(CAPACITY, in_flight.load)
    in_flight.unpark("parked")
    assert in_flight.load == gate.Load(2, 1000, None, {"bulk": Room(2, 1000)})


def test_a_parked_job_leaves_the_reserve_to_those_it_is_for() -> None:
    in_flight = loaded(("bulk", 300), ("bulk", 100), parked=700)
    in_flight.remove(1)
    assert not gate.may_start(CAPACITY, in_flight.load, reserve=RESERVE, reserve_tiers=["realtime"])
    in_flight.remove(0)
    assert gate.may_start(CAPACITY, in_flight.load, reserve=RESERVE, reserve_tiers=["realtime"])


def test_the_reserve_is_not_kept_from_a_parked_job_that_it_is_for() -> None:
    in_flight = loaded(("realtime", 300), parked=700)
    assert gate.may_start(CAPACITY, in_flight.load, reserve=RESERVE, reserve_tiers=["realtime", "bulk"])


def test_a_parked_job_whose_margin_does_not_fit_starts_alone() -> None:
    in_flight = loaded(("bulk", 300), parked=1010)
    in_flight.remove(0)
    assert gate.may_start(CAPACITY, in_flight.load)


def emptying(*jobs: tuple[str, int]) -> gate.InFlight:
    """Jobs that run, and one that must run alone."""
    in_flight = gate.InFlight()
    for number, (tier, tokens) in enumerate(jobs):
        in_flight.add(number, tier, tokens)
    in_flight.add("suspect", "bulk", 100, is_parked=True, is_alone=True)
    return in_flight


def offered_by(in_flight: gate.InFlight) -> Credit:
    return gate.credit(
        CAPACITY, in_flight.load, is_open=True, reserve=RESERVE, reserve_tiers=["realtime"], alone_ms=0
    )


def test_a_worker_that_holds_none_says_when_one_that_must_run_alone_is_due() -> None:
    busy = gate.InFlight()
    busy.add("a", "bulk", 30)
    assert offered_by(busy).alone_ms == 0
    assert offered_by(gate.InFlight()).alone_ms == 1, "an idle one takes what else waits first"
    assert offered_by(emptying(("bulk", 300))).alone_ms is None


def test_while_ordinary_jobs_end_before_one_that_must_run_alone_urgent_ones_still_come() -> None:
    assert offered_by(emptying(("bulk", 300), ("realtime", 50))) == Credit(5, 650, 10, reserve=Room(5, 650))


def test_when_only_urgent_ones_are_left_before_it_no_more_of_them_come() -> None:
    in_flight = emptying(("bulk", 300), ("realtime", 50))
    in_flight.remove(0)
    assert offered_by(in_flight) == gate.NONE
    assert not gate.may_start(CAPACITY, in_flight.load, reserve_tiers=["realtime"])


def test_one_that_must_run_alone_starts_when_nothing_else_runs_and_then_nothing_is_offered_or_counted() -> None:
    in_flight = emptying(("bulk", 300))
    assert not gate.may_start(CAPACITY, in_flight.load)
    in_flight.remove(0)
    assert gate.may_start(CAPACITY, in_flight.load)
    in_flight.unpark("suspect")
    in_flight.add("late", "realtime", 50)
    assert "late" not in in_flight
    assert offered_by(in_flight) == gate.NONE
    in_flight.remove("suspect")
    assert offered_by(in_flight).sequences == CAPACITY.sequences


def test_a_parked_job_does_not_start_beside_one_that_runs_alone() -> None:
    in_flight = emptying()
    in_flight.unpark("suspect")
    in_flight.add("parked", "bulk", 10, is_parked=True)
    assert not gate.may_start(CAPACITY, in_flight.load)


def test_nothing_starts_where_nothing_is_parked() -> None:
    assert not gate.may_start(CAPACITY, gate.Load())


def test_a_job_counts_once_and_only_until_it_is_removed() -> None:
    in_flight = gate.InFlight()
    in_flight.add("a", "bulk", 30)
    in_flight.add("a", "bulk", 30)
    in_flight.add("b", "realtime", 5)
    assert in_flight.load == gate.Load(2, 35, None, {"bulk": Room(1, 30), "realtime": Room(1, 5)})
    in_flight.remove("a")
    in_flight.remove("a")
    assert in_flight.load.held_by(["bulk", "realtime", "unknown"]) == Room(1, 5)


def test_a_job_that_left_the_engine_gives_its_room_once_and_is_forgotten_later() -> None:
    in_flight = gate.InFlight()
    in_flight.add("a", "bulk", 30)
    assert in_flight.leave("a", most_ending=1)
    assert in_flight.load.held_by(["bulk"]) == NO_ROOM
    assert in_flight.load.sequences == 0
    assert not in_flight.leave("a", most_ending=9)
    assert not in_flight.remove("a")
    assert not in_flight.leave("unknown", most_ending=9)


def test_when_as_many_are_ending_as_may_the_next_keeps_its_room_until_it_is_removed() -> None:
    in_flight = gate.InFlight()
    for job in ("a", "b", "c"):
        in_flight.add(job, "bulk", 30)
    assert in_flight.leave("a", most_ending=1)
    assert not in_flight.leave("b", most_ending=1)
    assert in_flight.load.sequences == 2
    assert in_flight.remove("b")
    in_flight.remove("a")
    assert in_flight.leave("c", most_ending=1)


def test_one_that_ran_alone_and_left_bars_nobody_any_more() -> None:
    in_flight = emptying()
    in_flight.unpark("suspect")
    assert in_flight.leave("suspect", most_ending=1)
    assert offered_by(in_flight).sequences == CAPACITY.sequences


def test_a_parked_job_that_leaves_holds_nothing_any_more() -> None:
    in_flight = loaded(parked=700)
    in_flight.remove("parked")
    assert in_flight.load == gate.Load()


@given(st.lists(st.tuples(st.integers(1, 300), st.booleans(), st.booleans()), max_size=60))
def test_jobs_taken_within_credit_never_exceed_the_engine_nor_touch_the_reserve(
    steps: list[tuple[int, bool, bool]],
) -> None:
    in_flight = gate.InFlight()
    held: list[int] = []
    for number, (tokens, ends_one, is_urgent) in enumerate(steps):
        if ends_one and held:
            ended = held.pop(0)
            if not in_flight.leave(ended, most_ending=2):
                in_flight.remove(ended)
        credit = gate.credit(CAPACITY, in_flight.load, is_open=True, reserve=RESERVE, reserve_tiers=["realtime"])
        kept = NO_ROOM if is_urgent else credit.reserve
        fits = tokens + credit.margin_tokens <= credit.kv_tokens - kept.kv_tokens
        if credit.sequences - kept.sequences > 0 and fits:
            in_flight.add(number, "realtime" if is_urgent else "bulk", tokens + credit.margin_tokens)
            held.append(number)
        assert in_flight.load.sequences <= CAPACITY.sequences
        assert in_flight.load.kv_tokens <= CAPACITY.kv_tokens
        assert in_flight.load.held_by(["bulk"]).sequences < CAPACITY.sequences


JOB_TOKENS = st.integers(1, 300)


@given(
    ordinary=st.lists(JOB_TOKENS, max_size=7),
    parked=st.integers(700, 1010),
    urgent=st.lists(JOB_TOKENS, min_size=20, max_size=40),
)
def test_a_parked_job_starts_once_the_ordinary_ones_ended_however_many_urgent_ones_come(
    ordinary: list[int], parked: int, urgent: list[int]
) -> None:
    in_flight = gate.InFlight()
    in_flight.add("parked", "bulk", parked, is_parked=True)
    for number, tokens in enumerate(ordinary):
        if in_flight.load.kv_tokens + tokens <= CAPACITY.kv_tokens and in_flight.load.sequences < 8:
            in_flight.add(number, "bulk", tokens)
    for number, tokens in enumerate(urgent):
        credit = gate.credit(CAPACITY, in_flight.load, is_open=True, reserve_tiers=["realtime"])
        if credit.sequences and tokens + credit.margin_tokens <= credit.kv_tokens:
            in_flight.add(("urgent", number), "realtime", tokens + credit.margin_tokens)
    for number in range(len(ordinary)):
        in_flight.remove(number)
    assert gate.may_start(CAPACITY, in_flight.load, reserve=RESERVE, reserve_tiers=["realtime"])
