"""What a worker has room for, and how a job waits in it that does not fit yet."""

from dataclasses import replace
from typing import Any

import pytest

from inference.broker import Claimed
from inference.guards import Room
from inference.limits import Limits, Rival, WorkerLimits
from inference.objectives import Starts
from inference.states import JobStatus, ReleaseReason
from tests import factories
from tests.integration import hosts
from tests.integration.hosts import KV_TOKENS, Hosted, row
from tests.waiting import until
from workers import host as host_module
from workers.engine import EngineGauges
from workers.execution import Abort
from workers.outcomes import Interrupted

hosted = hosts.hosted
pytestmark = pytest.mark.once

LARGE = KV_TOKENS - 500


def with_model(limits: Limits, **overrides: Any) -> Limits:
    models = {name: replace(model, **overrides) for name, model in limits.models.items()}
    return replace(limits, models=models)


def park(hosted: Hosted, **overrides: Any) -> Claimed:
    """Claim a job that needs nearly all of the KV cache, and hand it over as parked."""
    hosted.publish(**{"prompt_tokens": LARGE - 100, "expected_tokens": 100} | overrides)
    return hosted.run(replace(hosted.claim(), is_parked=True))


def busy(hosted: Hosted) -> Claimed:
    """Run a job without an end."""
    hosted.engine.reply = hosted.engine.forever
    claimed = hosted.submit(prompt_tokens=900, expected_tokens=100)
    until(lambda: hosted.engine.running)
    return claimed


def leave(hosted: Hosted, claimed: Claimed) -> None:
    """Have a job leave the engine; later ones are answered."""
    hosted.engine.reply = hosted.engine._answer
    hosted.host.abort(claimed.token, Abort.DRAIN)


def test_a_parked_job_reaches_the_engine_once_it_fits(hosted: Hosted) -> None:
    first = busy(hosted)
    parked = park(hosted)
    until(lambda: hosted.host.vitals.in_flight == 2)
    offered = hosted.host.room.credit()
    assert offered.reserve.sequences == offered.sequences, "nothing for tiers without the reserve"
    assert row(parked).status == JobStatus.QUEUED
    leave(hosted, first)
    hosted.end(count=2)
    assert len(hosted.engine.calls) == 2
    assert (row(parked).status, row(parked).attempts) == (JobStatus.SUCCEEDED, 1)
    assert hosted.host.room.credit().may_park is False
    until(lambda: hosted.host.vitals.in_flight == 0)


def test_a_parked_job_is_held_against_its_objective_once_it_begins(hosted: Hosted) -> None:
    first = busy(hosted)
    parked = park(hosted)
    until(lambda: hosted.host.vitals.in_flight == 2)
    as_parked(hosted, parked)
    leave(hosted, first)
    hosted.end(count=2)
    assert hosted.broker.starts([hosts.QUEUE])[hosts.QUEUE][0] in {Starts(1, 0), Starts(0, 1)}


def as_parked(hosted: Hosted, claimed: Claimed) -> None:
    """Make an entry what its claim leaves of one that does not fit yet: its start is not counted."""
    client, prefix = hosted.broker.client, hosted.broker.prefix
    client.hdel(prefix.encode() + b"e:" + claimed.token.job_id.bytes, "j")
    client.delete(f"{prefix}starts:{claimed.queue}")


def test_beside_a_parked_job_the_reserve_serves_what_fits_at_its_side(hosted: Hosted) -> None:
    first = busy(hosted)
    park(hosted, prompt_tokens=1_900)
    until(lambda: hosted.host.vitals.in_flight == 2)
    offered, margin = hosted.host.room.credit(), hosted.host.room.capacity.margin_tokens
    assert offered.reserve == Room(offered.sequences, offered.kv_tokens)
    assert offered.kv_tokens == KV_TOKENS - 2_000 - margin
    assert not offered.may_park
    leave(hosted, first)
    hosted.end(count=2)


def test_a_parked_job_is_cancelled_like_any_other(hosted: Hosted) -> None:
    first = busy(hosted)
    parked = park(hosted)
    until(lambda: hosted.host.vitals.in_flight == 2)
    hosts.cancel(row(parked))
    hosted.host.abort_job(parked.token.job_id, Abort.CANCELLED)
    hosted.end()
    assert row(parked).status == JobStatus.CANCELLED
    assert (hosted.leases, hosted.waiting, len(hosted.engine.calls)) == (1, 0, 1)
    leave(hosted, first)
    hosted.end(count=2)


@pytest.mark.parametrize("how", ["drain", "give back", "pause"])
def test_a_parked_job_goes_back_unbegun_at_no_cost_of_an_attempt(hosted: Hosted, how: str) -> None:
    first = busy(hosted)
    parked = park(hosted)
    until(lambda: hosted.host.vitals.in_flight == 2)
    if how == "drain":
        hosted.host.drain()
    elif how == "give back":
        hosted.host.abort(parked.token, Abort.DRAIN)
    else:
        hosted.limits = replace(hosted.limits, worker_limits={"worker-1@test": WorkerLimits(is_paused=True)})
        hosted.host.limits_changed()
    assert hosted.end() == Interrupted(ReleaseReason.DRAIN)
    job = row(parked)
    assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
    assert (hosted.leases, hosted.waiting) == (1, 1)
    assert hosted.engine.running == 1, "what runs goes on"
    leave(hosted, first)
    hosted.end(count=2)


def test_a_parked_job_whose_lease_is_lost_is_left_to_its_new_holder(hosted: Hosted) -> None:
    first = busy(hosted)
    parked = park(hosted)
    until(lambda: hosted.host.vitals.in_flight == 2)
    hosted.host.abort(parked.token, Abort.LOST)
    assert hosted.end() is None
    assert row(parked).status == JobStatus.QUEUED
    hosted.broker.discard([parked.token.job_id])
    leave(hosted, first)
    hosted.end(count=2)


def test_a_parked_job_that_never_fits_is_failed_at_once(hosted: Hosted) -> None:
    first = busy(hosted)
    parked = park(hosted, prompt_tokens=KV_TOKENS)
    hosted.end()
    assert row(parked).error_code == "bad_request"
    assert str(KV_TOKENS) in row(parked).error_message
    leave(hosted, first)
    hosted.end(count=2)


def test_a_halted_worker_claims_nothing_until_it_is_resumed(hosted: Hosted) -> None:
    free = hosted.limits
    hosted.limits = replace(free, worker_limits={"worker-1@test": WorkerLimits(is_paused=True)})
    assert hosted.host.room.credit().sequences == 0
    hosted.limits = free
    assert hosted.host.room.credit().sequences > 0


def test_a_claim_that_was_under_way_when_the_worker_was_halted_goes_back(hosted: Hosted) -> None:
    hosted.publish()
    claimed = hosted.claim()
    hosted.limits = replace(hosted.limits, worker_limits={"worker-1@test": WorkerLimits(is_paused=True)})
    hosted.run(claimed)
    assert hosted.end() == Interrupted(ReleaseReason.DRAIN)
    assert (hosted.engine.calls, hosted.waiting) == ([], 1)


def test_margin_and_reserve_are_the_models_as_they_are_now(hosted: Hosted) -> None:
    first = busy(hosted)
    hosted.limits = with_model(hosted.limits, kv_margin_tokens=333, reserve_share=0.5)
    offered = hosted.host.room.credit()
    assert offered.margin_tokens == 333
    assert offered.reserve == Room(16, KV_TOKENS // 2)
    leave(hosted, first)
    hosted.end()


def test_an_offer_says_what_each_tier_may_take_and_how_busy_the_worker_is(hosted: Hosted) -> None:
    first = busy(hosted)
    offer = hosted.host.room.offer()
    assert (offer.load.in_flight, offer.load.slots) == (1, 32)
    assert offer.tiers["realtime"].uses_reserve
    assert offer.tiers["standard"].share is None
    bulk = offer.tiers["bulk"].share
    assert bulk is not None
    assert bulk.sequences == 28  # of 32, by the seeded share of 0.9
    leave(hosted, first)
    hosted.end()


@pytest.fixture
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_module, "PREEMPTIONS_SECONDS", 0.01)


@pytest.mark.usefixtures("frequent_looks")
def test_preemptions_raise_the_margin(hosted: Hosted, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter(range(1_000))

    async def gauges() -> EngineGauges:
        return EngineGauges(1, 0, kv_capacity_tokens=KV_TOKENS, kv_used_share=1.0, preemptions=next(seen))

    before = hosted.host.room.capacity.margin_tokens
    monkeypatch.setattr(hosted.engine, "gauges", gauges)
    first = busy(hosted)
    until(lambda: hosted.host.room.credit().margin_tokens > before)
    leave(hosted, first)
    hosted.end()


def test_a_job_that_only_a_larger_worker_can_hold_is_left_to_it_and_refused_once_there_is_none(
    hosted: Hosted,
) -> None:
    hosted.publish(prompt_tokens=KV_TOKENS, expected_tokens=1)
    alone = hosted.limits

    def claim() -> list[Claimed]:
        offer = hosted.host.room.offer()
        return hosted.broker.claim(offer.request([hosts.QUEUE], worker="worker-1@test")).jobs

    for rival in (KV_TOKENS + 1, None):
        hosted.limits = replace(alone, rivals=(Rival(factories.MODEL, ("*",), rival),))
        assert claim() == []
    hosted.limits = replace(alone, rivals=(Rival(factories.MODEL, ("*",), KV_TOKENS),))
    [claimed] = claim()
    hosted.run(claimed)
    hosted.end()
    assert (row(claimed).status, row(claimed).error_code) == (JobStatus.FAILED, "bad_request")
