"""A worker's configuration: parsed once, or refused with what to change."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from inference.states import EngineKind
from tests import factories
from workers import config, engine_url
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
    with pytest.raises(ConfigError, match=r"'\*\.gold\.\*' matches no queue .* the tiers bulk, standard and"):
        make_config(serve=("*.bulk.*", "*.gold.*"))


def test_a_length_class_can_have_workers_of_its_own() -> None:
    queues = make_config(serve=("*.standard.long", "*.bulk.long")).queues
    assert queues == (f"{factories.MODEL}.bulk.long", f"{factories.MODEL}.standard.long")


def test_a_name_that_no_row_has_room_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="longer than 128 characters"):
        make_config(name="n" * 128 + "@h")


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


def make_external(**overrides: Any) -> WorkerConfig:
    values = {"device": None, "engine": EngineKind.EXTERNAL, "engine_url": "https://gpu-7:8000/v1"}
    return make_config(**values | overrides)


def test_an_external_engine_needs_no_device_and_names_its_worker() -> None:
    made = make_external(engine_key="sk-1")
    assert (made.engine.device, made.engine.url, made.engine.key) == ("external", "https://gpu-7:8000", "sk-1")
    assert made.node.startswith("worker-external@")


def test_the_key_is_in_no_configs_text() -> None:
    assert "sk-1" not in repr(make_external(engine_key="sk-1"))


def test_an_engine_of_the_workers_own_needs_a_device() -> None:
    with pytest.raises(ConfigError, match="--device is missing"):
        make_config(device=None)


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ({"engine_url": None}, "--engine-url is missing"),
        ({"engine_url": "gpu-7:8000"}, "--engine-url: must be as in"),
        ({"engine_url": "https://me:secret@gpu-7"}, "--engine-url: must not carry a login"),
        ({"engine_url": "http://gpu-7/v1?key=secret"}, "--engine-url: must end with its path"),
        ({"engine_url": "http://gpu-7:x/v1"}, "--engine-url: "),
        ({"device": "0"}, "an external engine has none of ours"),
        ({"engine_key": "two\nlines secret"}, "SLUICE_ENGINE_KEY"),
        ({"engine": EngineKind.SIM, "device": "cpu"}, "--engine-url: an engine of kind sim"),
    ],
)
def test_what_contradicts_an_external_engine_is_refused_and_no_secret_shown(
    overrides: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigError, match=match) as refused:
        make_external(**overrides)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://gpu-7:8000", "http://gpu-7:8000"),
        ("http://gpu-7:8000/", "http://gpu-7:8000"),
        ("https://gpu-7/v1/", "https://gpu-7"),
        ("https://proxy/team/llm/v1", "https://proxy/team/llm"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
    ],
)
def test_a_url_may_end_with_v1_or_not(url: str, address: str) -> None:
    assert engine_url.parse(url) == address
