"""A worker's configuration: parsed once, or refused with what to change."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from inference.states import EngineKind
from tests import factories
from workers import config
from workers.config import ConfigError, Options, Paths, WorkerConfig

PATHS = Paths(state_dir=Path("/var/lib/sluice"), models_dir=Path("/models"))


def make_config(paths: Paths = PATHS, **overrides: Any) -> WorkerConfig:
    values: dict[str, Any] = {"device": "cpu", "model": factories.MODEL, "engine": EngineKind.SIM}
    return WorkerConfig.from_options(
        Options(**values | overrides),
        limits=factories.make_limits(),
        paths=paths,
        lease_seconds=20.0,
        drain_seconds=60.0,
    )


def test_by_default_it_serves_every_queue_of_its_model() -> None:
    queues = make_config().queues
    assert queues == tuple(sorted(factories.make_limits().queues()))


def test_patterns_choose_queues() -> None:
    assert make_config(serve=("*.bulk.*",)).queues == (
        f"{factories.MODEL}.bulk.long",
        f"{factories.MODEL}.bulk.short",
    )


def test_patterns_that_match_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"\*\.gold\.\* matches none"):
        make_config(serve=("*.gold.*",))


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=f"there are: {factories.MODEL}"):
        make_config(model="gpt-9")


def test_a_wrong_device_is_refused() -> None:
    with pytest.raises(ConfigError, match="--device"):
        make_config(device="tpu")


def test_the_name_comes_from_device_and_host_unless_given() -> None:
    assert make_config(device="0,1").node == f"worker-0-1@{socket.gethostname()}"
    assert make_config(name="left").node == f"left@{socket.gethostname()}"
    assert make_config(name="left@gpu-7").node == "left@gpu-7"


@pytest.mark.parametrize("name", ["", "two words", "a@b@c", "../x", "@host"])
def test_a_name_that_celery_or_a_path_would_stumble_over_is_refused(name: str) -> None:
    if not name:
        assert make_config(name=name).node.startswith("worker-cpu@")
        return
    with pytest.raises(ConfigError, match="--name"):
        make_config(name=name)


def test_two_workers_never_share_a_socket_and_its_path_is_short_even_where_the_state_folder_is_not() -> None:
    deep = Paths(state_dir=Path("/" + "x" * 150), models_dir=Path("/models"))
    sockets = {make_config(paths, name=name).engine.socket_path for paths in (PATHS, deep) for name in ("a", "b")}
    assert len(sockets) == 4
    assert all(len(os.fsencode(path)) <= config.MAX_SOCKET_PATH_BYTES for path in sockets)


def test_served_queues_follow_the_tables() -> None:
    made = make_config(serve=("*.short",))
    gold = factories.make_tier_limits("gold")
    later = factories.make_limits(tiers={"gold": gold})
    assert made.served_queues(later) == [f"{factories.MODEL}.gold.short"]
