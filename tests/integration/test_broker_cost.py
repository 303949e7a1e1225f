"""What a queued job costs: bounded bytes, and commands that do not grow with the backlog."""

import pytest
import uuid_utils.compat

from inference.broker import Broker, Entry
from tests.integration.broker_jobs import claim, make_entry

QUEUES = [
    f"smollm2-135m-instruct.{tier}.{length}"
    for tier in ("realtime", "standard", "bulk")
    for length in ("short", "medium", "long")
]


def publish(broker: Broker, jobs: int, tenants: int) -> None:
    entries: list[Entry] = [
        make_entry(
            job_id=uuid_utils.compat.uuid7(),
            queue=QUEUES[n % 9],
            tenant=f"tenant-{n // 9 % tenants}",
            estimate=10.0 + n % 7 / 7,
            mailbox="web-0123456789",
            streamed=True,
        )
        for n in range(jobs)
    ]
    broker.publish(entries)


def used_bytes(broker: Broker) -> int:
    return int(broker.client.info("memory")["used_memory"])


def commands(broker: Broker) -> int:
    """Redis commands so far, those inside scripts included."""
    return sum(int(stats["calls"]) for stats in broker.client.info("commandstats").values())


def claim_commands(broker: Broker, jobs: int) -> int:
    claim(broker, QUEUES, limit=jobs)
    before = commands(broker)
    assert len(claim(broker, QUEUES, limit=jobs)) == jobs
    return commands(broker) - before


def test_a_queued_job_takes_at_most_700_bytes(alone: Broker) -> None:
    publish(alone, 1000, tenants=10)
    before = used_bytes(alone)
    publish(alone, 20_000, tenants=100)
    assert (used_bytes(alone) - before) / 20_000 <= 700


@pytest.mark.parametrize("jobs", [1, 16])
def test_a_claim_needs_as_many_commands_with_a_large_backlog_as_with_a_small_one(alone: Broker, jobs: int) -> None:
    publish(alone, 400, tenants=1)
    few = claim_commands(alone, jobs)
    publish(alone, 20_000, tenants=500)
    # Jobs of sixteen tenants in place of one: their passes and heads are read for each.
    assert claim_commands(alone, jobs) <= 2 * few


def test_the_first_claim_of_a_set_of_lengths_finds_thousands_of_tenants(alone: Broker) -> None:
    entries = [make_entry(tenant=f"tenant-{n}") for n in range(4_500)]
    alone.publish(entries)
    assert [job.token.job_id for job in claim(alone, limit=2)] == [entry.job_id for entry in entries[:2]]
    assert alone.client.zcard(f"{alone.prefix}f:smollm2-135m-instruct:standard:short") == 4_498
