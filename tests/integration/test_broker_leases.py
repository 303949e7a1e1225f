"""Claims and leases: within credit, fenced, renewed, and never reaped too early."""

import secrets
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis
import uuid_utils.compat

from inference.broker import Broker, ClaimRequest, Credit, Renewal, Token
from tests.integration.broker_jobs import PLENTY, QUEUE, TIERS, claim, claim_one, make_entry
from tests.waiting import until

REALTIME = QUEUE.replace("standard", "realtime")


def of_another_claim(token: Token) -> Token:
    return replace(token, claim_id=uuid_utils.compat.uuid7())


def test_a_claim_returns_what_was_published(broker: Broker) -> None:
    entry = make_entry(estimate=10.1, arrival_ms=1_700_000_000_123, streamed=True, mailbox="web-1")
    broker.publish([entry])
    (claimed,) = claim(broker)
    assert (claimed.token.job_id, claimed.queue, claimed.tenant) == (entry.job_id, QUEUE, "ann")
    assert (claimed.prompt_tokens, claimed.expected_tokens, claimed.kv_tokens) == (100, 20, 120)
    assert (claimed.estimate, claimed.arrival_ms) == (10.1, 1_700_000_000_123)
    assert (claimed.streamed, claimed.mailbox, claimed.body) == (True, "web-1", b"")


def test_no_two_claims_take_the_same_job(broker: Broker) -> None:
    broker.publish([make_entry() for _ in range(200)])
    with ThreadPoolExecutor(16) as pool:
        batches = list(pool.map(lambda n: claim(broker, limit=3, worker=f"w{n}"), range(100)))
    tokens = [claimed.token for batch in batches for claimed in batch]
    assert len(tokens) == len({t.job_id for t in tokens}) == len({t.claim_id for t in tokens}) == 200


def test_a_claim_takes_no_more_than_its_sequences_its_limit_and_its_tokens(broker: Broker) -> None:
    broker.publish([make_entry() for _ in range(50)])
    assert len(claim(broker, credit=Credit(sequences=3, kv_tokens=10**6))) == 3
    assert len(claim(broker, limit=4)) == 4
    assert len(claim(broker, credit=Credit(sequences=9, kv_tokens=5 * 120 + 119))) == 5
    assert len(claim(broker, credit=Credit(sequences=9, kv_tokens=5 * 120 + 119, margin_tokens=20))) == 5
    assert len(claim(broker, credit=Credit(sequences=9, kv_tokens=5 * 120 + 119, margin_tokens=24))) == 4


@pytest.mark.parametrize("credit", [Credit(0, 10**6), Credit(-1, 10**6), Credit(5, 0), Credit(5, -7)])
def test_a_claim_without_credit_takes_nothing(broker: Broker, credit: Credit) -> None:
    broker.publish([make_entry()])
    assert claim(broker, credit=credit) == []


def test_a_job_that_does_not_fit_is_not_overtaken(broker: Broker) -> None:
    broker.publish([make_entry(prompt_tokens=5000, arrival_ms=1), make_entry(arrival_ms=2)])
    assert claim(broker, credit=Credit(9, 4000)) == []
    assert [c.prompt_tokens for c in claim(broker)] == [5000, 100]


def test_a_claim_over_two_models_is_refused(broker: Broker) -> None:
    with pytest.raises(ValueError, match="one model"):
        claim(broker, ["a.standard.short", "b.standard.short"])


def test_passes_of_one_model_do_not_matter_to_another(broker: Broker) -> None:
    broker.publish([make_entry(queue=f"a.{tier}.short") for tier in ("standard", "realtime") for _ in range(9)])
    claim(broker, ["a.standard.short", "a.realtime.short"], limit=15)
    broker.publish([make_entry(queue="b.standard.short"), make_entry(queue="b.realtime.short")])
    queues = [c.queue for c in claim(broker, ["b.standard.short", "b.realtime.short"])]
    assert queues == ["b.realtime.short", "b.standard.short"]


def test_plain_tasks_come_first_in_first_out_and_before_jobs(broker: Broker) -> None:
    tags = [uuid_utils.compat.uuid4() for _ in range(20)]
    broker.publish([make_entry()])
    for number, tag in enumerate(tags):
        broker.publish_task("control", tag, f"message {number}".encode())
    claimed = claim(broker, ["control", QUEUE], limit=30)
    assert [c.token.job_id for c in claimed[:-1]] == tags
    assert claimed[0].body == b"message 0"
    assert (claimed[0].tenant, claimed[0].kv_tokens) == ("", 0)
    assert claimed[-1].queue == QUEUE


def test_a_released_task_is_next_again_with_its_message(broker: Broker) -> None:
    for body in (b"first", b"second"):
        broker.publish_task("control", uuid_utils.compat.uuid7(), body)
    (claimed,) = claim(broker, ["control"], limit=1)
    assert broker.release(claimed.token)
    assert [c.body for c in claim(broker, ["control"])] == [b"first", b"second"]


def test_the_raw_command_does_what_claim_does(broker: Broker) -> None:
    broker.publish([make_entry()])
    request = ClaimRequest((QUEUE,), PLENTY, 5, "w", 60.0, TIERS)
    send: Callable[..., Any] = broker.client.execute_command
    broker.client.script_flush()
    with pytest.raises(redis.exceptions.NoScriptError):
        send(*broker.claim_command(request))
    broker.load_claim()
    (claimed,) = broker.parse_claim(send(*broker.claim_command(request))).jobs
    assert broker.renew([claimed.token], lease_seconds=5).lost == frozenset()


def test_a_released_job_keeps_its_arrival_and_its_place(broker: Broker) -> None:
    broker.publish([make_entry(arrival_ms=1000), make_entry(arrival_ms=2000)])
    (first,) = claim(broker, limit=1)
    assert broker.release(first.token)
    again, second = claim(broker)
    assert (again.token.job_id, again.arrival_ms) == (first.token.job_id, 1000)
    assert again.token.claim_id != first.token.claim_id
    assert second.arrival_ms == 2000


@pytest.mark.parametrize(
    "verb",
    [
        lambda broker, token: broker.ack(token, status="succeeded"),
        lambda broker, token: broker.release(token),
        lambda broker, token: not broker.renew([token], lease_seconds=60).lost,
    ],
    ids=["ack", "release", "renew"],
)
def test_a_token_of_another_claim_changes_nothing(broker: Broker, verb: Callable[[Broker, Token], bool]) -> None:
    claimed = claim_one(broker)
    broker.release(claimed.token)
    (ours,) = claim(broker, worker="worker-2")
    assert not verb(broker, claimed.token)
    assert not verb(broker, of_another_claim(ours.token))
    assert broker.stats([QUEUE])[0].leases == 1
    assert verb(broker, ours.token)


def test_a_released_job_is_no_longer_its_workers(broker: Broker) -> None:
    claimed = claim_one(broker)
    broker.release(claimed.token)
    assert not broker.ack(claimed.token, status="succeeded")
    assert broker.renew([claimed.token], lease_seconds=60).lost == {claimed.token}


def test_an_unfinished_job_is_due_when_its_lease_ends_and_not_before(broker: Broker) -> None:
    until(lambda: broker.client.info("server")["uptime_in_seconds"] >= 1)
    kept, left = claim_one(broker), claim_one(broker, lease_seconds=0.05)
    (due,) = until(lambda: broker.due(lease_seconds=0.05))
    assert (due.token, due.queue, due.worker, due.is_task) == (left.token, QUEUE, "worker-1", False)
    assert broker.held([left.token.job_id]), "the row moves first"
    assert broker.release(due.token)
    assert broker.due(lease_seconds=0.05) == []
    assert broker.renew([kept.token, left.token], lease_seconds=60).lost == {left.token}


def test_a_due_task_says_that_it_has_no_row(broker: Broker) -> None:
    until(lambda: broker.client.info("server")["uptime_in_seconds"] >= 1)
    broker.publish_task("control", uuid_utils.compat.uuid7(), b"{}")
    claim(broker, ["control"], lease_seconds=0.05)
    (due,) = until(lambda: broker.due(lease_seconds=0.05))
    assert (due.is_task, due.queue) == (True, "control")


def test_nothing_is_due_before_the_server_has_been_up_for_one_lease(broker: Broker) -> None:
    claim_one(broker, lease_seconds=0.001)
    until(lambda: broker.due(lease_seconds=0.001))
    assert broker.due(lease_seconds=10_000) == []


def test_nothing_is_due_for_one_lease_after_the_server_was_out_of_reach(broker: Broker) -> None:
    claimed = claim_one(broker, lease_seconds=0.001)
    until(lambda: broker.due(lease_seconds=2))
    looks = f"{broker.prefix}looks"
    last_ms = int(broker.client.hget(looks, "last") or 0)
    broker.client.hset(looks, "last", last_ms - 60_000)  # as if nobody had got through for a minute
    assert broker.due(lease_seconds=2) == [], "its worker may renew first"
    assert broker.due(lease_seconds=2) == []
    (due,) = until(lambda: broker.due(lease_seconds=2))
    assert due.token == claimed.token


def test_a_lease_ends_in_its_time_though_the_servers_clock_was_set_back(broker: Broker) -> None:
    claimed = claim_one(broker, lease_seconds=0.001)
    until(lambda: broker.due(lease_seconds=0.5))
    hour_ms = 3_600_000
    looks, leases = f"{broker.prefix}looks", f"{broker.prefix}l:{QUEUE}"
    for field in ("last", "since"):  # as if all so far was written an hour later
        broker.client.hincrby(looks, field, hour_ms)
    broker.client.zincrby(leases, hour_ms, claimed.token.job_id.bytes)

    assert broker.due(lease_seconds=0.5) == [], "its worker may renew first"
    (due,) = until(lambda: broker.due(lease_seconds=0.5))
    assert due.token == claimed.token


def test_a_renewed_lease_is_not_due(broker: Broker) -> None:
    claimed = claim_one(broker, lease_seconds=0.001)
    until(lambda: broker.due(lease_seconds=0.001))
    assert broker.renew([claimed.token], lease_seconds=60).lost == frozenset()
    assert broker.due(lease_seconds=0.001) == []


def test_renewing_nothing_asks_nothing(broker: Broker) -> None:
    assert broker.renew([], lease_seconds=60).lost == frozenset()


def test_a_cancelled_running_job_is_reported_and_its_ack_only_drops_the_lease(broker: Broker) -> None:
    claimed = claim_one(broker)
    assert broker.cancel(claimed.token.job_id) == "leased"
    assert broker.cancel(claimed.token.job_id) == "leased"
    renewal = broker.renew([claimed.token], lease_seconds=60)
    assert renewal == Renewal(lost=frozenset(), cancelled=frozenset({claimed.token}))
    assert broker.ack(claimed.token, status="cancelled")
    assert broker.cancel(claimed.token.job_id) == "absent"


def test_a_cancelled_running_job_is_not_queued_again_by_a_release(broker: Broker) -> None:
    claimed = claim_one(broker)
    broker.cancel(claimed.token.job_id)
    assert broker.release(claimed.token)
    assert broker.held([claimed.token.job_id]) == set()
    assert claim(broker) == []


def test_a_bell_rings_for_a_published_and_for_a_released_job(broker: Broker) -> None:
    bells = broker.bell_keys([REALTIME, QUEUE])
    claimed = claim_one(broker)
    assert broker.client.blpop(bells, timeout=1) is not None
    assert broker.release(claimed.token)
    assert broker.client.blpop(bells, timeout=1) is not None


def test_bells_are_bounded_and_silent_once_nothing_waits(broker: Broker) -> None:
    broker.publish([make_entry() for _ in range(50)])
    (bell,) = broker.bell_keys([QUEUE])
    assert broker.client.llen(bell) == 16
    claim(broker, limit=50)
    assert claim(broker) == []
    assert broker.client.llen(bell) == 0


def test_a_claim_for_lack_of_credit_leaves_the_bells(broker: Broker) -> None:
    broker.publish([make_entry()])
    claim(broker, credit=Credit(0, 0))
    claim(broker, credit=Credit(1, 1))
    assert broker.client.llen(broker.bell_keys([QUEUE])[0]) == 1


def test_only_one_holds_a_lock_until_its_block_ends(broker: Broker) -> None:
    name = secrets.token_hex(4)
    with broker.lock(name, seconds=60) as first, broker.lock(name, seconds=60) as second:
        assert (first, second) == (True, False)
    with broker.lock(name, seconds=60) as third:
        assert third


def test_a_lock_that_ran_out_and_was_taken_is_left_to_its_new_holder(broker: Broker) -> None:
    with broker.lock("x", seconds=0.001):
        until(lambda: broker.client.exists(f"{broker.prefix}lock:x") == 0)
        other = broker.lock("x", seconds=60)
        assert other.__enter__()
    assert broker.client.exists(f"{broker.prefix}lock:x") == 1


def lose(broker: Broker, job_id: uuid.UUID) -> None:
    """Have Redis evict an entry, as it does where its policy is not `noeviction`."""
    assert broker.client.delete(f"{broker.prefix}e:".encode() + job_id.bytes)


def test_an_entry_that_is_lost_while_it_waits_holds_up_no_other_and_can_be_published_anew(broker: Broker) -> None:
    lost, other = make_entry(arrival_ms=1), make_entry(arrival_ms=2)
    broker.publish([lost, other])
    claim(broker, limit=0)  # the sets of lengths are known from here on
    lose(broker, lost.job_id)

    broker.publish([make_entry(arrival_ms=3)])
    assert [claimed.token.job_id for claimed in claim(broker, limit=1)] == [other.job_id]
    assert broker.stats([QUEUE])[0].jobs == 1, "what is lost is not counted"
    assert broker.publish([lost]) == [True]
    assert lost.job_id in {claimed.token.job_id for claimed in claim(broker)}


def test_a_lease_whose_entry_is_lost_holds_up_no_other(broker: Broker) -> None:
    broker.publish([make_entry(), make_entry()])
    lost, other = claim(broker, lease_seconds=0.001)
    lose(broker, lost.token.job_id)

    assert [due.token for due in until(lambda: broker.due(lease_seconds=0.001))] == [other.token]


def test_a_task_that_is_lost_holds_up_no_other(broker: Broker) -> None:
    lost, other = uuid_utils.compat.uuid7(), uuid_utils.compat.uuid7()
    for task in (lost, other):
        broker.publish_task("control", task, b"{}")
    lose(broker, lost)

    assert [claimed.token.job_id for claimed in claim(broker, queues=["control"])] == [other]
