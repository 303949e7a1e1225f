"""What comes back after a fault waits as the others do, but is not claimed before its time."""

from typing import Final

import pytest
import uuid_utils.compat

from inference.broker import Broker, Claimed, Token
from inference.retries import Backoff
from tests.integration.broker_jobs import QUEUE, claim, claim_one, keys, make_entry
from tests.waiting import until

LONG: Final = Backoff(first_seconds=1000, longest_seconds=3500, least_share=1.0)
SHORT: Final = Backoff(first_seconds=0.001, longest_seconds=0.001)
WAITING: Final = {"e", "a", "d", "o", "tokens", "busy"}
"""Kinds of keys that something waiting has."""


def look(broker: Broker) -> bool:
    """Look at the leases, as some worker does every second; True if one ran out, of which there are none here."""
    return bool(broker.due(lease_seconds=60))


def claims(broker: Broker) -> list[Claimed]:
    look(broker)
    return claim(broker)


def back(broker: Broker, backoff: Backoff, **overrides: object) -> Token:
    """A job that was claimed and came back."""
    token = claim_one(broker, **overrides).token
    assert broker.release(token, backoff=backoff)
    return token


def wait_of_next_return(broker: Broker, token: Token, backoff: Backoff) -> tuple[float, float]:
    """Least and most seconds that the job may be kept by the server's clock, having come back again."""
    before = server_ms(broker)
    assert broker.release(token, backoff=backoff)
    after = server_ms(broker)
    until_ms = broker.client.zscore(f"{broker.prefix}d:{QUEUE}", token.job_id.bytes) or 0.0
    return (until_ms - after) / 1000, (until_ms - before) / 1000


def server_ms(broker: Broker) -> float:
    seconds, microseconds = broker.client.time()
    return seconds * 1000 + microseconds // 1000


def test_it_is_backlog_and_no_claim_takes_it(broker: Broker) -> None:
    token = back(broker, LONG, arrival_ms=5000)

    assert claims(broker) == []
    [stats] = broker.stats([QUEUE])
    assert (stats.jobs, stats.tokens, stats.oldest_arrival_ms, stats.leases) == (1, 120, 5000, 0)
    assert broker.held([token.job_id]) == {token.job_id}
    assert broker.entries() != ("0", [])
    assert not broker.publish([make_entry(job_id=token.job_id)])[0], "it is queued already"


def test_one_whose_entry_is_lost_is_not_counted_once_its_time_has_come(broker: Broker) -> None:
    token = back(broker, SHORT)
    broker.client.delete(f"{broker.prefix}e:".encode() + token.job_id.bytes)

    until(lambda: look(broker) or broker.client.exists(f"{broker.prefix}d:{QUEUE}") == 0)
    assert (broker.stats([QUEUE])[0].jobs, broker.stats([QUEUE])[0].tokens) == (0, 0)


def test_once_its_time_has_come_it_is_claimed_at_its_first_arrival(broker: Broker) -> None:
    token = back(broker, SHORT, arrival_ms=1000)
    broker.publish([make_entry(arrival_ms=2000)])

    until(lambda: look(broker) or broker.client.exists(f"{broker.prefix}d:{QUEUE}") == 0)
    first, _ = claim(broker)
    assert (first.token.job_id, first.arrival_ms) == (token.job_id, 1000)
    assert first.token.claim_id != token.claim_id
    assert broker.stats([QUEUE])[0].tokens == 0


def test_workers_that_wait_hear_of_it_then(broker: Broker) -> None:
    back(broker, SHORT)
    broker.client.delete(*broker.bell_keys([QUEUE]))
    look(broker)

    assert until(lambda: look(broker) or broker.client.llen(broker.bell_keys([QUEUE])[0]))


def test_it_keeps_nobody_out(broker: Broker) -> None:
    back(broker, LONG, tenant="ann", arrival_ms=1)
    entries = [make_entry(tenant=tenant, arrival_ms=2) for tenant in ("ann", "bob")]
    broker.publish(entries)

    assert {claimed.token.job_id for claimed in claims(broker)} == {entry.job_id for entry in entries}


def test_the_wait_doubles_each_time_up_to_the_longest(broker: Broker) -> None:
    token = claim_one(broker).token
    for expected in (1000, 2000, 3500, 3500):
        least, most = wait_of_next_return(broker, token, LONG)
        assert least <= expected <= most
        broker.client.zadd(f"{broker.prefix}d:{QUEUE}", {token.job_id.bytes: 1})  # as if its time had passed
        [claimed] = claims(broker)
        token = claimed.token


def test_a_share_of_the_wait_is_left_to_chance(broker: Broker) -> None:
    backoff = Backoff(first_seconds=1000, longest_seconds=1000, least_share=0.5)
    waits = [wait_of_next_return(broker, claim_one(broker).token, backoff) for _ in range(16)]

    assert all(least <= 1000 and most >= 500 for least, most in waits)
    assert len({round(least) for least, _ in waits}) > 1


def test_a_return_of_good_will_neither_waits_nor_counts(broker: Broker) -> None:
    token = claim_one(broker).token
    broker.release(token)
    [again] = claim(broker)
    least, most = wait_of_next_return(broker, again.token, LONG)

    assert least <= 1000 <= most


@pytest.mark.parametrize("verb", ["cancel", "discard"])
def test_it_can_be_taken_out_and_leaves_nothing(broker: Broker, verb: str) -> None:
    token = back(broker, LONG)

    assert broker.cancel(token.job_id) == "queued" if verb == "cancel" else broker.discard([token.job_id])
    assert keys(broker) & WAITING == set()
    assert broker.stats([QUEUE])[0].jobs == 0


def test_it_is_let_in_although_leases_may_not_be_reaped_yet(broker: Broker) -> None:
    token = back(broker, SHORT)

    assert until(lambda: broker.due(lease_seconds=10_000) == [] and claim(broker))
    assert broker.held([token.job_id])


def test_a_claim_that_lost_it_cannot_restore_its_lease(broker: Broker) -> None:
    claimed = claim_one(broker)
    broker.release(claimed.token, backoff=LONG)

    assert not broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert not broker.release(claimed.token, backoff=LONG)


def test_a_task_that_is_not_a_job_only_counts(broker: Broker) -> None:
    broker.publish_task("control", uuid_utils.compat.uuid7(), b"{}")
    for count in range(3):
        [claimed] = claim(broker, ["control"], lease_seconds=0.001)
        until(lambda: broker.client.info("server")["uptime_in_seconds"] >= 1)
        [due] = until(lambda: broker.due(lease_seconds=0.001))
        assert (due.failures, due.body, due.is_task) == (count, b"{}", True)
        assert broker.release(claimed.token, backoff=LONG)
