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
    return broker.places([], [job_id])[1][job_id]


def learn_sets(broker: Broker) -> None:
    """Claim nothing, so that the lengths served together are known."""
    assert claim(broker, [QUEUE, LONG], limit=0) == []


def test_within_a_tenant_a_place_is_the_claims_order(broker: Broker) -> None:
    learn_sets(broker)
    longs = publish(broker, 3, queue=LONG, arrival_ms=1000, estimate=2.0)
    shorts = publish(broker, 3, arrival_ms=2500, estimate=1.0)
    more = publish(broker, 3, arrival_ms=500, estimate=9.0)
    _, places = broker.places([], [*longs, *shorts, *more])
    foretold = sorted(places.values(), key=lambda place: (place.own_ahead, place.job_id))
    taken = [claimed.token.job_id for claimed in claim(broker, [QUEUE, LONG], limit=9)]
    assert [found.own_ahead for found in foretold] == list(range(9))
    assert [found.job_id for found in foretold] == taken


def test_a_late_tenant_comes_after_no_more_tenants_than_there_are_before_it(broker: Broker) -> None:
    learn_sets(broker)
    publish(broker, 5, tenant="dumps", arrival_ms=1000)
    [late] = publish(broker, 1, tenant="late", arrival_ms=2000)
    found = place(broker, late)
    assert (found.own_ahead, found.tenants, found.own_jobs) == (0, 2, 1)
    assert found.tenants_first in {0, 1}


def test_a_place_says_what_the_job_needs_and_who_it_belongs_to(broker: Broker) -> None:
    [job_id] = publish(broker, 1, prompt_tokens=100, expected_tokens=20, estimate=1.5, tenant_weight=3.0)
    found = place(broker, job_id)
    assert (found.queue, found.tokens, found.estimate, found.weight) == (QUEUE, 120, 1.5, 3.0)
    assert found.backing_off_seconds is None


def test_a_job_that_does_not_wait_has_no_place(broker: Broker) -> None:
    leased = claim_one(broker).token.job_id
    assert broker.places([], [leased, uuid_utils.compat.uuid7()])[1] == {}


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
    queues, _ = broker.places([QUEUE, LONG], [])
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
