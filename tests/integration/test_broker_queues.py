"""Waiting jobs: admission never overshoots, publishing is idempotent, numbers are true."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from uuid import UUID

import pytest
import uuid_utils.compat

from inference.broker import Broker, Credit, QueueStats
from inference.broker.queues import RESERVATION_SECONDS
from inference.limits import TenantLimits
from tests.integration.broker_jobs import QUEUE, admit, claim, claim_one, keys, make_entry

LONG = QUEUE.replace("short", "long")


def new_ids(number: int) -> list[UUID]:
    return [uuid_utils.compat.uuid7() for _ in range(number)]


def test_two_hundred_concurrent_callers_never_overshoot_the_cap(broker: Broker) -> None:
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: admit(broker, QUEUE, new_ids(3), cap=100), range(200)))
    assert sum(answer.accepted for answer in answers) == 33
    assert {answer.refusal.value for answer in answers if answer.refusal} == {99}


def test_callers_who_admit_and_publish_at_once_never_overshoot_either(broker: Broker) -> None:
    def submit(_: int) -> bool:
        entry = make_entry()
        accepted = admit(broker, QUEUE, [entry.job_id], cap=50).accepted
        return accepted and broker.publish([entry]) == [True]

    with ThreadPoolExecutor(32) as pool:
        accepted = sum(pool.map(submit, range(200)))
    assert accepted == broker.stats([QUEUE])[0].jobs == 50


def test_a_refused_bulk_reserves_nothing(broker: Broker) -> None:
    assert not admit(broker, QUEUE, new_ids(4), cap=3).accepted
    assert admit(broker, QUEUE, new_ids(3), cap=3).accepted


def test_room_is_given_back_when_rows_were_not_written(broker: Broker) -> None:
    ids = new_ids(3)
    admit(broker, QUEUE, ids, cap=3)
    broker.withdraw("key=sk-ann", ids)
    assert admit(broker, QUEUE, new_ids(3), cap=3).accepted


def test_what_was_counted_once_is_given_back_once(broker: Broker) -> None:
    """Who submits at the dashboard has no key: the owner is the tenant, whose window is then the same."""
    kept, withdrawn, other, last = new_ids(4)
    rated: dict[str, Any] = {"owner": "tenant=ann", "limits": TenantLimits(requests_per_minute=10)}
    admit(broker, QUEUE, [kept, withdrawn], **rated)
    admit(broker, QUEUE, [other], owner="tenant=ann")  # an admin's retry goes by no rate

    broker.withdraw("tenant=ann", [withdrawn, other])

    of_tenant = admit(broker, QUEUE, [last], **rated).of_tenant
    assert of_tenant is not None
    assert of_tenant.requests == 2


def test_a_reservation_ends_in_its_time_though_the_servers_clock_was_set_back(broker: Broker) -> None:
    (reserved,) = new_ids(1)
    admit(broker, QUEUE, [reserved], cap=1)
    broker.due(lease_seconds=60)
    hour_ms, ends = 3_600_000, f"{broker.prefix}r:{QUEUE}"
    broker.client.hincrby(f"{broker.prefix}looks", "last", hour_ms)  # as if all so far was written an hour later
    broker.client.zincrby(ends, hour_ms, reserved.bytes)

    broker.due(lease_seconds=60)

    longest_ms = broker.now().timestamp() * 1000 + RESERVATION_SECONDS * 1000
    [(_, ends_ms)] = cast("list[tuple[bytes, float]]", broker.client.zrange(ends, 0, -1, withscores=True))
    assert ends_ms <= longest_ms


def test_a_place_in_the_line_is_given_though_the_servers_clock_was_set_back(broker: Broker) -> None:
    admit(broker, QUEUE, new_ids(1), cap=1)
    hour_on = round(broker.now().timestamp() * 1000) + 3_600_000
    broker.client.set(f"{broker.prefix}next:{QUEUE}", hour_on)

    refusal = admit(broker, QUEUE, new_ids(1), cap=1).refusal

    assert refusal is not None
    assert refusal.retry_ms is not None
    assert refusal.retry_ms < 120_000


def test_a_job_published_after_its_reservation_ran_out_still_works(broker: Broker) -> None:
    entry = make_entry()
    admit(broker, QUEUE, [entry.job_id], cap=1)
    broker.client.delete(f"{broker.prefix}r:{QUEUE}")
    assert broker.publish([entry]) == [True]
    assert not admit(broker, QUEUE, new_ids(1), cap=1).accepted


def test_a_reservation_that_ran_out_takes_no_room(broker: Broker) -> None:
    (reserved,) = new_ids(1)
    admit(broker, QUEUE, [reserved], cap=1)
    broker.client.zadd(f"{broker.prefix}r:{QUEUE}", {reserved.bytes: 1})
    assert admit(broker, QUEUE, new_ids(1), cap=1).accepted


def test_publishing_twice_queues_once(broker: Broker) -> None:
    entry = make_entry()
    assert broker.publish([entry, entry]) == [True, False]
    (claimed,) = claim(broker)
    assert broker.publish([entry]) == [False]
    assert broker.ack(claimed.token, status="succeeded")
    assert broker.publish([entry]) == [True]


def test_a_thousand_jobs_are_published_in_one_call(broker: Broker) -> None:
    assert broker.publish([make_entry() for _ in range(1000)]) == [True] * 1000
    assert broker.stats([QUEUE])[0].jobs == 1000


def test_stats_say_jobs_tokens_age_and_leases(broker: Broker) -> None:
    broker.publish([make_entry(arrival_ms=1_700_000_000_000 + n) for n in range(3)])
    broker.publish([make_entry(queue=LONG, prompt_tokens=3000, arrival_ms=5)])
    claim(broker, limit=1)
    assert broker.stats([LONG, QUEUE, "m.x.y"]) == [
        QueueStats(LONG, jobs=1, tokens=3020, oldest_arrival_ms=5, leases=0, work_seconds=1.5),
        QueueStats(QUEUE, jobs=2, tokens=240, oldest_arrival_ms=1_700_000_000_001, leases=1, work_seconds=3.0),
        QueueStats("m.x.y", jobs=0, tokens=0, oldest_arrival_ms=None, leases=0),
    ]


def test_tokens_are_counted_beyond_any_float_format(broker: Broker) -> None:
    broker.publish([make_entry(prompt_tokens=1_000_000_000, expected_tokens=0) for _ in range(2)])
    assert broker.stats([QUEUE])[0].tokens == 2_000_000_000
    claim(broker, limit=1, credit=Credit(1, 10**12))
    assert broker.stats([QUEUE])[0].tokens == 1_000_000_000


def test_arrival_is_the_server_clock_unless_given(broker: Broker) -> None:
    seconds, _ = broker.client.time()
    claimed = claim_one(broker)
    assert abs(claimed.arrival_ms - seconds * 1000) < 5000
    assert 0 <= claimed.claimed_ms - claimed.arrival_ms < 5000


def test_cancelling_a_queued_job_removes_it_at_once(broker: Broker) -> None:
    entry, other = make_entry(), make_entry()
    broker.publish([entry, other])
    assert broker.cancel(entry.job_id) == "queued"
    assert broker.cancel(entry.job_id) == "absent"
    assert [c.token.job_id for c in claim(broker)] == [other.job_id]


def test_held_says_what_is_queued_or_leased(broker: Broker) -> None:
    leased = claim_one(broker).token.job_id
    queued = make_entry().job_id
    broker.publish([make_entry(job_id=queued)])
    assert broker.held([leased, queued, *new_ids(2)]) == {leased, queued}
    assert broker.held([]) == set()


def test_a_walk_over_entries_sees_all_jobs_and_no_tasks(broker: Broker) -> None:
    entries = [make_entry(queue=queue) for queue in (QUEUE, LONG) for _ in range(300)]
    broker.publish(entries)
    claim(broker, limit=100)
    broker.publish_task("control", uuid_utils.compat.uuid7(), b"{}")
    cursor, seen = broker.entries(count=50)
    while cursor != "0":
        cursor, more = broker.entries(cursor, 50)
        seen += more
    assert set(seen) == {entry.job_id for entry in entries}


def test_a_walk_over_nothing_ends_at_once(broker: Broker) -> None:
    assert broker.entries() == ("0", [])


def test_discarding_drops_queued_and_leased_and_says_which(broker: Broker) -> None:
    leased, queued = claim_one(broker), make_entry()
    broker.publish([queued])
    ids = [leased.token.job_id, queued.job_id, *new_ids(1)]
    assert broker.discard(ids) == set(ids[:2])
    assert broker.held(ids) == set()
    assert broker.renew([leased.token], lease_seconds=60).lost == {leased.token}


def test_a_tenant_weight_acts_on_jobs_that_wait_already(broker: Broker) -> None:
    broker.publish([make_entry(tenant=tenant) for tenant in ("ann", "bob") for _ in range(40)])
    broker.set_tenant_weight("bob", 9.0)
    tenants = [claimed.tenant for claimed in claim(broker, limit=20)]
    assert tenants.count("bob") == pytest.approx(18, abs=1)


def test_a_weight_published_with_a_job_is_kept(broker: Broker) -> None:
    broker.publish([make_entry(tenant="bob", tenant_weight=9.0) for _ in range(40)])
    broker.publish([make_entry(tenant="ann") for _ in range(40)])
    tenants = [claimed.tenant for claimed in claim(broker, limit=20)]
    assert tenants.count("bob") == pytest.approx(18, abs=1)


def test_when_all_is_finished_only_bounded_tables_are_left(broker: Broker) -> None:
    queues = [f"m.{tier}.{length}" for tier in ("realtime", "bulk") for length in ("short", "long")]
    entries = [make_entry(queue=queues[n % 4], tenant=f"t{n % 3}", tenant_weight=1.0 + n % 3) for n in range(40)]
    admit(broker, queues[0], [e.job_id for e in entries], cap=100)
    broker.withdraw("key=sk-ann", [e.job_id for e in entries])
    broker.publish(entries)
    broker.publish_task("control", uuid_utils.compat.uuid7(), b"{}")
    broker.cancel(entries[0].job_id)
    while claimed := claim(broker, ["control", *queues]):
        for each in claimed:
            assert broker.ack(each.token, status="succeeded")
    assert keys(broker) <= {
        "queues",
        "plain",
        "weights",
        "tiers",
        "pass",
        "sets",
        "floor",
        "came",
        "drained",
        "admitting",
    }
