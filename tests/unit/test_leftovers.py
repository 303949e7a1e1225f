"""What a claim left of its offer, and whether more may wait that fits."""

from dataclasses import replace

from inference.broker import Claims, Credit, TierTerms
from inference.guards import Load, Room
from tests.unit.test_envelope import make_claimed
from workers import leftovers
from workers.terms import MAX_PULL, Offer

JOB = make_claimed()
TIER = JOB.queue.split(".")[-2]
NEED = JOB.kv_tokens + 10
OFFER = Offer(
    Credit(8, 10_000, margin_tokens=10),
    tiers={TIER: TierTerms(share=Room(4, 5_000)), "other": TierTerms(share=Room(4, 5_000)), "online": TierTerms()},
)


def test_what_was_taken_counts_with_its_margin_against_the_credit_and_its_own_tiers_share() -> None:
    left = leftovers.of(OFFER, [JOB, JOB])
    assert (left.credit.sequences, left.credit.kv_tokens) == (6, 10_000 - 2 * NEED)
    assert left.tiers[TIER].share == Room(2, 5_000 - 2 * NEED)
    assert left.tiers["other"] == OFFER.tiers["other"]
    assert left.tiers["online"].share is None


def test_an_empty_claim_leaves_all_of_its_offer_and_nothing_that_fits() -> None:
    assert leftovers.of(OFFER, []) == OFFER
    assert not leftovers.may_be_there(OFFER, Claims([], again_ms=5))
    assert not leftovers.may_be_there(Offer(Credit(0, 0)), Claims([]))


def test_nothing_more_fits_after_a_claim_that_took_less_than_it_might() -> None:
    assert not leftovers.may_be_there(OFFER, Claims([JOB] * 7))


def test_more_may_fit_after_a_claim_that_its_size_time_or_a_parked_job_ended() -> None:
    assert leftovers.may_be_there(OFFER, Claims([JOB] * 8))
    assert leftovers.may_be_there(Offer(Credit(1_000, 1 << 30)), Claims([JOB] * MAX_PULL))
    assert leftovers.may_be_there(OFFER, Claims([JOB], again_ms=25))
    assert leftovers.may_be_there(OFFER, Claims([JOB, replace(JOB, is_parked=True)]))


def test_a_worker_that_became_idle_may_take_what_it_let_gather() -> None:
    gathers = {"bulk": TierTerms(gather_jobs=10, gather_seconds=20.0), "online": TierTerms()}
    busy = Offer(Credit(6, 10_000), tiers=gathers, load=Load(2, 8))
    assert leftovers.may_have_gathered(busy, 0)
    assert leftovers.may_have_gathered(leftovers.of(busy, [JOB]), 0)
    assert not leftovers.may_have_gathered(busy, 1), "it still has other work"
    assert not leftovers.may_have_gathered(replace(busy, load=Load(0, 8)), 0), "it was idle, and did not wait"
    assert not leftovers.may_have_gathered(replace(busy, tiers={"online": TierTerms()}), 0)
