"""Leases on a server whose clock jumps while it runs."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference import broker as broker_module
from inference.broker import Broker
from project.stack import ports, valkey
from tests.acceptance.faults import clocks
from tests.integration.broker_jobs import claim_one
from tests.waiting import until

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(clocks.library() is None, reason="libfaketime is not installed"),
]


@pytest.fixture
def jumping(tmp_path: Path) -> Iterator[Broker]:
    """A broker on a server with a clock of its own, in `tmp_path`."""
    clocks.set_clock(tmp_path, "valkey", clocks.RIGHT)
    port = ports.any_free("127.0.0.1")
    command = [str(valkey.binary()), "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(
        command, env=os.environ | clocks.environment(tmp_path, "valkey"), stdout=subprocess.DEVNULL
    )
    url = f"redis://127.0.0.1:{port}/0"
    until(lambda: not valkey.silence(url), what="Valkey answers")
    client = broker_module.connect(url)
    yield Broker(client, prefix="{test}:")
    client.close()
    server.kill()
    server.wait()
    clocks.clean_up()


@pytest.mark.parametrize("offset", ["-1h", "+1h"])
def test_a_dead_workers_lease_ends_in_its_time_and_a_live_ones_does_not(
    jumping: Broker, tmp_path: Path, offset: str
) -> None:
    dead, alive = claim_one(jumping, lease_seconds=2), claim_one(jumping, lease_seconds=2)
    jumping.due(lease_seconds=2)
    clocks.set_clock(tmp_path, "valkey", offset)

    def due() -> list[broker_module.DueLease]:
        jumping.renew([alive.token], lease_seconds=2)
        return jumping.due(lease_seconds=2)

    assert due() == []
    assert [lease.token for lease in until(due)] == [dead.token]
