"""Where jobs stand: the look agrees with the order of the claims, and costs no more for a long queue."""

import pytest
import uuid_utils.compat

from inference.broker import Broker, JobPlace
from inference.retries import Backoff
from tests.integration.broker_jobs import QUEUE, claim, claim_one, make_entry

LONG = QUEUE.replace("short", "long")


def publish(broker: Broker, count: int, **fields: object) -> list[uuid_utils.compat.UUID]:
    entries = [make_entry(**fields) for _ in range(count)]
    broker.publish(entries)
    return [entry.job_id for entry in entries]


def place(broker: Broker, job_id: uuid_utils.compat.UUID) -> JobPlace:
    return broker.places([], [job_id]).jobs[job_id]


def learn_sets(broker: Broker) -> None:
    """Claim nothing, so that the lengths served together are known."""
    assert claim(broker, [QUEUE, LONG], limit=0) == []


def test_within_a_tenant_a_place_is_the_claims_order(broker: Broker) -> None:
    learn_sets(broker)
    longs = publish(broker, 3, queue=LONG, arrival_ms=1000, estimate=2.0)
    shorts = publish(broker, 3, arrival_ms=2500, estimate=1.0)
    more = publish(broker, 3, arrival_ms=500, estimate=9.0)
    places = broker.places([], [*longs, *shorts, *more]).jobs
    foretold = sorted(places.values(), key=lambda place: (place.own_ahead, place.job_id))
    taken = [claimed.token.job_id for claimed in claim(broker, [QUEUE, LONG], limit=9)]
    assert [found.own_ahead for found in foretold] == list(range(9))
    assert [found.job_id for found in foretold] == taken


def tenants_in_order(broker: Broker, count: int) -> list[str]:
    """Claim one job after another; returns whose they were."""
    return [claim(broker, [QUEUE, LONG], limit=1)[0].tenant for _ in range(count)]


def alphas_before_each(order: list[str]) -> list[int]:
    """Return how many of alpha's went before each of beta's."""
    return [order[:at].count("alpha") for at, tenant in enumerate(order) if tenant == "beta"]


OTHER_WEIGHTS = [({"tenant_weight": 8.0}, {}), ({}, {"tenant_weight": 3.0}), ({}, {})]
OTHER_SIZES = [({"estimate": 0.25}, {}), ({"tenant_weight": 2.0}, {"estimate": 4.0})]


@pytest.mark.parametrize(
    ("is_served", "alpha", "beta"),
    [
        *((True, *fields) for fields in OTHER_WEIGHTS + OTHER_SIZES),
        *((False, *fields) for fields in OTHER_WEIGHTS),  # where no worker claims, all jobs are taken to be alike
    ],
)
def test_a_place_among_tenants_goes_by_their_weights_and_by_what_their_jobs_take(
    broker: Broker, alpha: dict[str, float], beta: dict[str, float], is_served: bool
) -> None:
    if is_served:
        learn_sets(broker)
    publish(broker, 60, **{"tenant": "alpha", "arrival_ms": 1000, "estimate": 1.0} | alpha)
    ids = publish(broker, 5, **{"tenant": "beta", "arrival_ms": 2000, "estimate": 1.0} | beta)
    foretold = [found.tenants_ahead for found in broker.places([], ids)[1].values()]
    order = tenants_in_order(broker, 65)
    assert foretold == alphas_before_each(order)


@pytest.mark.parametrize("taken", [1, 5, 13, 20])
def test_a_place_among_tenants_is_as_their_turns_have_come(broker: Broker, taken: int) -> None:
    learn_sets(broker)
    publish(broker, 60, tenant="alpha", arrival_ms=1000, tenant_weight=8.0)
    ids = publish(broker, 6, tenant="beta", arrival_ms=2000)
    tenants_in_order(broker, taken)
    foretold = [found.tenants_ahead for found in broker.places([], ids)[1].values()]
    order = tenants_in_order(broker, 66 - taken)
    assert foretold == alphas_before_each(order)


def test_of_more_tenants_than_are_looked_at_the_others_are_taken_to_be_like_them(broker: Broker) -> None:
    learn_sets(broker)
    for tenant in range(300):
        publish(broker, 1, tenant=f"{tenant:03}", arrival_ms=1000)
    [*_, last] = publish(broker, 2, tenant="zoe", arrival_ms=2000)
    assert place(broker, last).tenants_ahead == pytest.approx(300, abs=2)


def test_a_place_says_what_the_job_needs(broker: Broker) -> None:
    [job_id] = publish(broker, 1, prompt_tokens=100, expected_tokens=20, estimate=1.5)
    found = place(broker, job_id)
    assert (found.queue, found.tokens, found.estimate) == (QUEUE, 120, 1.5)
    assert (found.tenants_ahead, found.own_jobs, found.backing_off_seconds) == (0, 1, None)


@pytest.mark.parametrize("count", [0, 3, 30])
def test_a_queue_says_what_its_jobs_in_flight_hold(broker: Broker, count: int) -> None:
    publish(broker, count + 2, prompt_tokens=100, expected_tokens=20)
    assert len(claim(broker, limit=count) if count else []) == count
    assert broker.places([QUEUE], [])[0][QUEUE].leased_tokens == count * 120


def test_a_job_that_does_not_wait_has_no_place(broker: Broker) -> None:
    leased = claim_one(broker).token.job_id
    assert broker.places([], [leased, uuid_utils.compat.uuid7()]).jobs == {}


def test_a_job_that_came_back_after_a_failure_says_until_when_it_waits(broker: Broker) -> None:
    token = claim_one(broker).token
    broker.release(token, backoff=Backoff(60.0, 60.0))
    found = place(broker, token.job_id)
    assert 0 < (found.backing_off_seconds or 0) <= 60


def test_a_queues_first_job_is_the_oldest_that_may_be_claimed(broker: Broker) -> None:
    token = claim_one(broker, arrival_ms=1).token
    broker.release(token, backoff=Backoff(60.0, 60.0))
    [job_id] = publish(broker, 1, arrival_ms=2000)
    publish(broker, 1, arrival_ms=3000)
    queues = broker.places([QUEUE, LONG], []).queues
    assert (queues[QUEUE].backing_off, queues[QUEUE].first and queues[QUEUE].first.job_id) == (1, job_id)
    assert (queues[LONG].backing_off, queues[LONG].first) == (0, None)


def look_commands(broker: Broker, job_id: uuid_utils.compat.UUID) -> int:
    """Redis commands of one look, those inside the script included."""

    def commands() -> int:
        return sum(int(stats["calls"]) for stats in broker.client.info("commandstats").values())

    before = commands()
    broker.places([QUEUE, LONG], [job_id])
    return commands() - before


@pytest.mark.once
def test_a_look_needs_as_many_commands_with_a_large_backlog_as_with_a_small_one(alone: Broker) -> None:
    learn_sets(alone)
    publish(alone, 10, tenant="tenant-0", arrival_ms=1000)
    [last, *_] = publish(alone, 10, arrival_ms=2000)
    look_commands(alone, last)
    few = look_commands(alone, last)
    for tenant in range(50):
        publish(alone, 100, tenant=f"tenant-{tenant}", arrival_ms=1000)
    assert look_commands(alone, last) == few
