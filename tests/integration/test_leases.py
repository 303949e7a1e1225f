"""Leases are renewed, written anew for those whose rows still name them, and settled for certain."""

import io
import threading
import time
import types
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import uuid_utils.compat
from django.conf import settings

from inference import broker as broker_module
from inference import lifecycle
from inference.broker import Broker, Claimed
from inference.models import Job
from inference.states import ReleaseReason
from tests import factories
from tests.waiting import PATIENCE_SECONDS, until
from workers import leases as leases_module
from workers import settlement
from workers.drain import Drain
from workers.held import HELD, Held
from workers.leases import Keeper
from workers.settlement import Settler

QUEUE = f"{factories.MODEL}.standard.short"
LEASE_SECONDS = 0.8


@pytest.fixture
def keeper(sluice: Broker, valkey: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keeper]:
    """A keeper whose threads the test is."""
    monkeypatch.setattr(settings, "REDIS_URL", valkey)
    monkeypatch.setattr(settings, "BROKER_PREFIX", sluice.prefix)
    monkeypatch.setattr(settings, "LEASE_SECONDS", LEASE_SECONDS)
    yield Keeper(pool=None, worker="worker-1@test")
    for token in HELD.tokens():
        HELD.drop(token)


def claim(broker: Broker, queue: str = QUEUE) -> Claimed:
    claimed = factories.claim(broker, queue, worker="worker-1@test", lease_seconds=LEASE_SECONDS)
    HELD.add(claimed)
    return claimed


def running(broker: Broker) -> Claimed:
    """A claim whose job runs."""
    job = factories.make_job()
    factories.publish(job)
    claimed = claim(broker)
    lifecycle.apply([lifecycle.Start(claimed.token, "worker-1@test")])
    return claimed


def leases(broker: Broker, queue: str = QUEUE) -> int:
    return broker.stats([queue])[0].leases


def wipe(client: redis.Redis, broker: Broker) -> None:
    client.delete(*client.scan_iter(f"{broker.prefix}*"))


def look(keeper: Keeper) -> None:
    """Renew, and have what was lost looked after, as the two threads do."""
    keeper.renew()
    keeper._restore_lost(wait_seconds=0.01)


def test_what_is_held_never_runs_out(keeper: Keeper, sluice: Broker) -> None:
    running(sluice)
    ends_at = time.monotonic() + 2 * LEASE_SECONDS
    while time.monotonic() < ends_at:
        keeper.renew()
        assert sluice.due(lease_seconds=0.001) == []
        time.sleep(LEASE_SECONDS / 8)


def test_a_lease_that_redis_forgot_is_written_anew_while_the_row_names_the_claim(
    keeper: Keeper, sluice: Broker, redis_client: redis.Redis
) -> None:
    claimed = running(sluice)
    wipe(redis_client, sluice)
    look(keeper)
    assert leases(sluice) == 1
    assert sluice.ack(claimed.token, status="succeeded")


def test_a_lease_that_is_anothers_is_not_taken_back(keeper: Keeper, sluice: Broker) -> None:
    claimed = running(sluice)
    lifecycle.apply([lifecycle.Release(claimed.token, ReleaseReason.LEASE_EXPIRED)])
    sluice.release(claimed.token)
    HELD.drop(claimed.token)
    other = claim(sluice)
    HELD.add(claimed)
    for _ in range(3):
        look(keeper)
    assert sluice.ack(other.token, status="succeeded")


def test_a_finished_jobs_lease_does_not_come_back(
    keeper: Keeper, sluice: Broker, redis_client: redis.Redis
) -> None:
    claimed = running(sluice)
    lifecycle.apply([factories.make_success(claimed.token)])
    wipe(redis_client, sluice)
    for _ in range(3):
        look(keeper)
    assert leases(sluice) == 0


def test_a_tasks_lease_that_redis_forgot_comes_back_whole(
    keeper: Keeper, sluice: Broker, redis_client: redis.Redis
) -> None:
    sluice.publish_task("control", uuid_utils.compat.uuid7(), b'{"whole": "message"}')
    claimed = claim(sluice, "control")
    wipe(redis_client, sluice)
    for _ in range(2):
        look(keeper)
    assert leases(sluice, "control") == 1
    sluice.release(claimed.token)
    HELD.drop(claimed.token)
    assert claim(sluice, "control").body == b'{"whole": "message"}'


def test_a_job_claimed_but_not_started_keeps_its_lease_too(
    keeper: Keeper, sluice: Broker, redis_client: redis.Redis
) -> None:
    job = factories.make_job()
    factories.publish(job)
    claim(sluice)
    wipe(redis_client, sluice)
    look(keeper)
    assert leases(sluice) == 1
    assert Job.objects.get(id=job.id).status == "queued"


def test_an_acknowledgement_is_tried_until_redis_is_back_and_the_claim_is_held_meanwhile(
    keeper: Keeper, sluice: Broker
) -> None:
    claimed = running(sluice)
    is_away = threading.Event()
    is_away.set()

    def connect() -> Any:
        if is_away.is_set():
            raise broker_module.BrokerAway("away")
        return sluice

    settler = Settler(connect=connect)
    future = settler.ack(claimed.token, status="succeeded")
    assert not settler.flush(seconds=0.1)
    assert HELD.tokens() == [claimed.token]
    is_away.clear()
    assert future.result(PATIENCE_SECONDS) is True
    until(lambda: not HELD.tokens())
    assert leases(sluice) == 0


def test_settling_anothers_claim_does_nothing_and_says_so(keeper: Keeper, sluice: Broker) -> None:
    claimed = running(sluice)
    sluice.release(claimed.token)
    assert Settler(connect=lambda: sluice).ack(claimed.token, status="succeeded").result(PATIENCE_SECONDS) is False
    assert sluice.stats([QUEUE])[0].jobs == 1


def test_settlements_keep_their_order(keeper: Keeper, sluice: Broker) -> None:
    claimed = running(sluice)
    settler = Settler(connect=lambda: sluice)
    first, second = settler.release(claimed.token), settler.ack(claimed.token, status="succeeded")
    assert (first.result(PATIENCE_SECONDS), second.result(PATIENCE_SECONDS)) == (True, False)


def test_acknowledgements_that_wait_go_together_and_each_learns_its_own_fate(
    keeper: Keeper, sluice: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, ours = running(sluice), running(sluice)
    sluice.release(lost.token)
    is_away, calls = threading.Event(), []
    is_away.set()
    ack_many = sluice.ack_many

    def counted(endings: Any) -> list[bool]:
        if is_away.is_set():
            raise broker_module.BrokerAway("away")
        calls.append(len(endings))
        return ack_many(endings)

    monkeypatch.setattr(sluice, "ack_many", counted)
    settler = Settler(connect=lambda: sluice)
    first = settler.ack(running(sluice).token, status="succeeded")
    others = [settler.ack(claimed.token, status="succeeded") for claimed in (lost, ours)]
    released = settler.release(running(sluice).token)
    is_away.clear()

    assert [future.result(PATIENCE_SECONDS) for future in (first, *others, released)] == [
        True,
        False,
        True,
        True,
    ]
    assert sum(calls) == 3
    assert len(calls) <= 2


def test_what_cannot_be_settled_is_left_to_its_lease_loudly_and_keeps_nothing_else_up(
    keeper: Keeper, sluice: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(settlement, "BACKOFF_SECONDS", (0.001, 0.001))
    broken, ours = running(sluice), running(sluice)
    key = sluice.prefix.encode() + b"e:" + broken.token.job_id.bytes
    sluice.client.rename(key, b"aside")
    sluice.client.set(key, "not a hash: the script breaks on it")
    settler = Settler(connect=lambda: sluice)
    futures = [settler.ack(claimed.token, status="succeeded") for claimed in (broken, ours)]

    assert [future.result(PATIENCE_SECONDS) for future in futures] == [False, True]
    until(lambda: not HELD.tokens())
    [said] = [record for record in caplog.records if getattr(record, "action", "") == "settle_given_up"]
    assert (said.levelname, vars(said)["job_id"]) == ("ERROR", broken.token.job_id)
    sluice.client.rename(b"aside", key)
    assert leases(sluice) == 1, "the row decides when it runs out"


class Enough(BaseException):
    """Ends a loop that is for ever."""


@pytest.mark.parametrize(("loop", "work"), [("_renew_always", "renew"), ("_rescue_always", "_restore_lost")])
def test_no_error_ends_the_threads(keeper: Keeper, monkeypatch: pytest.MonkeyPatch, loop: str, work: str) -> None:
    outcomes = iter([RuntimeError("a bug"), broker_module.BrokerAway("away"), Enough()])

    def fail(**_: Any) -> None:
        raise next(outcomes)

    monkeypatch.setattr(keeper, work, fail)
    monkeypatch.setattr(leases_module, "connection", io.BytesIO())
    monkeypatch.setattr(leases_module, "RETRY_SECONDS", 0.01)
    with pytest.raises(Enough):
        getattr(keeper, loop)()


def test_a_worker_that_ends_gives_tasks_back_and_leaves_jobs_to_their_leases(
    keeper: Keeper, sluice: Broker
) -> None:
    running(sluice)
    sluice.publish_task("control", uuid_utils.compat.uuid7(), b"{}")
    claim(sluice, "control")
    Drain(types.SimpleNamespace()).shutdown(None)
    assert sluice.stats(["control"])[0].jobs == 1
    assert (leases(sluice), sluice.stats([QUEUE])[0].jobs) == (1, 0), "its row still runs"


def test_waiting_for_the_last_claim_ends_with_it(sluice: Broker) -> None:
    held = Held()
    assert held.wait_until_empty(seconds=0)
    job = factories.make_job()
    factories.publish(job)
    claimed = claim(sluice)
    HELD.drop(claimed.token)
    held.add(claimed)
    assert not held.wait_until_empty(seconds=0.01)
    threading.Timer(0.02, held.drop, (claimed.token,)).start()
    assert held.wait_until_empty(seconds=PATIENCE_SECONDS)
    assert not held.drop(claimed.token)
