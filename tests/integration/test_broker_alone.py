"""Jobs that must run alone wait apart: one is out at a time, and they hold nobody up."""

from typing import Any
from uuid import UUID

import pytest

from inference.broker import Broker, Claimed, Credit, Load
from inference.guards import Cap
from inference.retries import Backoff
from tests.integration.broker_jobs import QUEUE, claim, keys, make_entry
from tests.waiting import until

REALTIME, BULK = (QUEUE.replace("standard", tier) for tier in ("realtime", "bulk"))
ALL = (REALTIME, QUEUE, BULK)
IDLE, BUSY = Load(0, 8), Load(3, 8)


def publish(broker: Broker, count: int, **fields: Any) -> list[UUID]:
    entries = [make_entry(**fields) for _ in range(count)]
    broker.publish(entries)
    return [entry.job_id for entry in entries]


def suspects(broker: Broker, count: int, **fields: Any) -> list[UUID]:
    return publish(broker, count, alone=True, **fields)


def taken(broker: Broker, alone_ms: int | None, *, load: Load = IDLE, **overrides: Any) -> list[Claimed]:
    credit = Credit(8, 10**6, alone_ms=alone_ms)
    return claim(broker, overrides.pop("queues", ALL), credit=credit, load=load, **overrides)


def ids(claims: list[Claimed]) -> list[UUID]:
    return [claimed.token.job_id for claimed in claims]


def test_when_one_is_due_it_is_taken_before_all_else_and_by_itself(broker: Broker) -> None:
    publish(broker, 3)
    first, _ = suspects(broker, 2)
    [claimed] = taken(broker, 0, load=BUSY)
    assert (claimed.token.job_id, claimed.is_alone, claimed.is_parked) == (first, True, True)


def test_until_one_is_due_others_go_first_and_one_is_taken_only_by_a_worker_with_nothing_else(
    broker: Broker,
) -> None:
    [suspect] = suspects(broker, 1)
    ordinary = publish(broker, 2, arrival_ms=2**41)
    assert ids(taken(broker, 5000)) == ordinary
    assert taken(broker, 5000, load=BUSY) == []
    assert ids(taken(broker, 5000)) == [suspect]


def test_a_worker_that_holds_one_is_given_no_other(broker: Broker) -> None:
    suspects(broker, 1)
    assert taken(broker, None) == []


def test_one_is_out_at_a_time_whoever_asks(broker: Broker) -> None:
    first, second = suspects(broker, 2)
    [claimed] = taken(broker, 0)
    assert taken(broker, 0, worker="worker-2") == []
    broker.ack(claimed.token, status="succeeded")
    assert (first, ids(taken(broker, 0, worker="worker-2"))) == (claimed.token.job_id, [second])


def test_heavier_tiers_go_first_and_within_one_the_oldest(broker: Broker) -> None:
    [bulk] = suspects(broker, 1, queue=BULK, arrival_ms=1)
    late, early = (suspects(broker, 1, queue=REALTIME, arrival_ms=ms)[0] for ms in (3, 2))
    order = []
    for _ in range(3):
        [claimed] = taken(broker, 0)
        order += ids([claimed])
        broker.ack(claimed.token, status="succeeded")
    assert order == [early, late, bulk]


def test_a_release_can_say_so_and_the_job_stays_so(broker: Broker) -> None:
    [job_id] = publish(broker, 1)
    [claimed] = taken(broker, None)
    broker.release(claimed.token, alone=True)
    assert taken(broker, None) == []
    [again] = taken(broker, 0)
    broker.release(again.token)
    assert taken(broker, None) == []
    assert ids(taken(broker, 0)) == [job_id]


def test_one_that_waits_after_a_failure_comes_back_so(broker: Broker) -> None:
    [job_id] = publish(broker, 1)
    [claimed] = taken(broker, None)
    broker.release(claimed.token, alone=True, backoff=Backoff(0.001, 0.001))
    until(lambda: broker.due(lease_seconds=1) == [] and broker.client.exists(f"{broker.prefix}y:{QUEUE}"))
    assert taken(broker, None) == []
    assert ids(taken(broker, 0)) == [job_id]


@pytest.mark.parametrize(
    "held", [{"paused": frozenset(ALL)}, {"caps": (Cap((QUEUE,), 0),)}, {"queues": (BULK,)}], ids=str
)
def test_guards_hold_them_too(broker: Broker, held: dict[str, Any]) -> None:
    suspects(broker, 1)
    assert taken(broker, 0, **held) == []


def test_they_count_as_waiting_and_nothing_is_left_of_one_that_is_cancelled(broker: Broker) -> None:
    [job_id] = suspects(broker, 1)
    assert broker.stats([QUEUE])[0].jobs == 1
    assert broker.cancel(job_id) == "queued"
    assert broker.stats([QUEUE])[0].jobs == broker.stats([QUEUE])[0].tokens == 0
    assert keys(broker).isdisjoint({"e", "a", "y", "alone", "tokens"})


def test_what_they_wait_for_can_be_told(broker: Broker) -> None:
    first, second = suspects(broker, 2)
    [ordinary] = publish(broker, 1)
    places = broker.places([QUEUE], [first, second, ordinary])
    assert [(places.jobs[i].alone, places.jobs[i].own_ahead) for i in (first, second)] == [(True, 0), (True, 1)]
    assert not places.jobs[ordinary].alone
    assert places.queues[QUEUE].first == places.jobs[ordinary]
    assert places.alone == frozenset()
    taken(broker, 0, worker="worker-2")
    assert broker.places([], []).alone == {"worker-2"}
