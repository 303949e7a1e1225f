"""What only PostgreSQL has: a server that can go away under a pool of connections."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from django.db.utils import ConnectionHandler
from django.utils import timezone

from inference import executor, lifecycle, snapshot
from inference.broker import Broker
from inference.group_commit import GroupCommit
from inference.models import Job, Tier
from inference.states import JobStatus
from project import flower_pages
from tests import factories, postgresql
from tests.integration import worker_processes
from tests.integration.worker_processes import Fleet, all_are, submit
from tests.postgresql import Server
from tests.waiting import until

pytestmark = pytest.mark.postgresql
fleet = worker_processes.fleet


def test_after_a_restart_no_request_meets_a_broken_connection(database: None, postgresql_server: Server) -> None:
    asyncio.run(many_at_once())
    postgresql_server.cut_connections()
    asyncio.run(many_at_once())
    connection.close()  # this thread's own, which was cut too


def test_one_broken_connection_tells_of_the_others(database: None, postgresql_server: Server) -> None:
    asyncio.run(many_at_once())
    postgresql_server.cut_connections()
    pool = connection.pool  # type: ignore[attr-defined]
    pool.pop_stats()
    asyncio.run(executor.run(Tier.objects.count))
    assert pool.get_stats()["connections_lost"] == 1, "each was tried, with a longer pause each time"
    connection.close()


async def many_at_once() -> None:
    meeting = threading.Barrier(executor.THREADS)

    def count() -> int:
        Tier.objects.count()
        meeting.wait(10)  # so that each thread has a connection
        return Tier.objects.count()

    counts = await asyncio.gather(*(executor.run(count) for _ in range(executor.THREADS)))
    assert counts == [3] * executor.THREADS


def test_a_connection_goes_back_when_its_work_is_done(database: None) -> None:
    asyncio.run(many_at_once())
    pool = connection.pool  # type: ignore[attr-defined]
    until(lambda: pool.get_stats()["pool_available"] >= executor.THREADS)


def test_a_commit_is_repeated_after_a_restart(database: None, postgresql_server: Server) -> None:
    commits = GroupCommit()
    first, second = (factories.make_token(factories.make_job().id) for _ in range(2))
    assert commits.submit(lifecycle.Start(first, "worker-1")).result(10).moved
    postgresql_server.cut_connections()
    assert commits.submit(lifecycle.Start(second, "worker-1")).result(10).moved
    commits.close()
    connection.close()
    assert Job.objects.get(id=second.job_id).attempts == 1


def test_limits_are_the_last_good_ones_until_the_database_is_back(
    database: None, postgresql_server: Server
) -> None:
    good = snapshot.limits()
    postgresql_server.cut_connections()
    snapshot.renew()
    assert snapshot.limits() == good
    snapshot.renew()
    assert snapshot.limits() == good
    assert Tier.objects.exists()


@pytest.fixture
def own_server() -> Iterator[Server]:
    with postgresql.running() as server:
        server.run("CREATE DATABASE sluice")
        yield server


@pytest.fixture
def away_and_back(own_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConnectionHandler]:
    """Django's connections to that server, in a process with little patience."""
    default = settings.DATABASES["default"]
    options = {**default["OPTIONS"], "pool": {**default["OPTIONS"]["pool"], "timeout": 1, "reconnect_timeout": 1}}
    config = {**default, "HOST": str(own_server.folder), "NAME": "sluice", "OPTIONS": options}
    handler = ConnectionHandler({"default": config, "other": {**config}})
    yield handler
    handler["other"].close_pool()  # type: ignore[attr-defined]


def test_a_server_that_is_away_is_told_soon_and_found_again(
    database: None, own_server: Server, away_and_back: ConnectionHandler
) -> None:
    other = away_and_back["other"]
    assert one(other) == 1
    other.close()
    own_server.stop()
    began = time.monotonic()
    with pytest.raises(OperationalError, match="No such file or directory"):  # its socket
        one(other)
    assert time.monotonic() - began < 10
    own_server.start()
    assert one(other) == 1
    other.close()


def one(other: object) -> int:
    with other.cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("SELECT 1")
        return int(cursor.fetchone()[0])


def test_a_worker_goes_on_after_a_restart(fleet: Fleet, postgresql_server: Server) -> None:
    worker, control = fleet.ready(), fleet.control()
    postgresql_server.cut_connections()
    connection.close()
    restarted_at = timezone.now()
    ids = submit(5)
    all_are(ids, JobStatus.SUCCEEDED)
    until(lambda: (row := worker.row) and row.heartbeat_at > restarted_at)
    assert worker.is_running()
    assert control.is_running()


def test_flowers_threads_meet_no_broken_connection(sluice: Broker, postgresql_server: Server) -> None:
    shown = flower_pages._with_fresh_connection(flower_pages.queue_rows)
    postgresql_server.cut_connections()
    connection.close()
    assert flower_pages._with_fresh_connection(flower_pages.queue_rows) == shown
