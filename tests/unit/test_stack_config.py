"""How `manage.py up` settles ports, secrets and the environment of its parts."""

import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from inference.states import EngineKind
from project.stack import config, credentials, parts, ports, runner
from project.stack.config import Options, StackConfig, StackError
from project.stack.credentials import Credentials
from project.stack.parts import Stage


def make_options(state_dir: Path, **overrides: object) -> Options:
    values = {"engine": EngineKind.SIM, "host": "127.0.0.1", "devices": ("cpu", "cpu"), "ready_file": None}
    return Options(**{"port": ports.any_free("127.0.0.1"), "state_dir": state_dir, **values, **overrides})  # type: ignore[arg-type]


def make_config(state_dir: Path, environ: dict[str, str] | None = None, **overrides: object) -> StackConfig:
    return config.build(make_options(state_dir, **overrides), Credentials(), environ or {})


def test_a_taken_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StackError, match=rf"port {port} on 127\.0\.0\.1 is taken"):
            make_config(tmp_path, port=port)


def test_what_a_stack_writes_is_its_owners_only(tmp_path: Path) -> None:
    state, before = tmp_path / "new" / "state", os.umask(0o022)
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StackError, match="is taken"):
            runner.run(make_options(state, port=taken.getsockname()[1]))
    finally:
        os.umask(before)
    written = [state, *state.rglob("*")]
    assert len(written) > 1
    assert not [path for path in written if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]


def test_flower_keeps_its_distance_from_the_web_port() -> None:
    web = next(p for p in range(19000, 19400) if ports.is_free("127.0.0.1", p + ports.FLOWER_OFFSET))
    assert ports.for_flower("127.0.0.1", web) == web + ports.FLOWER_OFFSET


def test_flower_moves_when_its_port_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert ports.for_flower("127.0.0.1", taken - ports.FLOWER_OFFSET) != taken


def test_flower_finds_a_port_beside_the_highest_web_port() -> None:
    assert 0 < ports.for_flower("127.0.0.1", 65535) < 65536


def test_a_port_that_is_promised_to_another_part_is_not_given_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "QUIET_PORTS", range(20_000, 20_003))
    monkeypatch.setattr(ports, "is_free", lambda *_: True)
    assert ports.any_free("127.0.0.1", spoken_for=[20_000, 20_002]) == 20_001


def test_the_parts_of_a_stack_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web = ports.any_free("127.0.0.1")
    monkeypatch.setattr(ports, "QUIET_PORTS", [web, web + ports.FLOWER_OFFSET, 1])
    monkeypatch.setattr(ports, "is_free", lambda *_: True)
    built = make_config(tmp_path, port=web)
    assert (built.flower_port, built.valkey_port) == (web + ports.FLOWER_OFFSET, 1)


def test_credentials_are_made_once(tmp_path: Path) -> None:
    assert credentials.load(tmp_path) == credentials.load(tmp_path)


def test_credentials_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    credentials.load(tmp_path)
    assert stat.S_IMODE((tmp_path / credentials.FILE_NAME).stat().st_mode) == 0o600


def test_no_two_stacks_share_a_secret(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = (json.loads(json.dumps(_secrets(credentials.load(tmp_path / name)))) for name in ("a", "b"))
    assert not set(one) & set(other)


def _secrets(kept: Credentials) -> list[str]:
    return [kept.django_secret_key, kept.valkey_password, kept.admin_password, kept.flower_password]


def test_a_private_file_replaces_the_old_one_and_leaves_no_draft(tmp_path: Path) -> None:
    target = tmp_path / "ready.json"
    target.write_text("old")
    credentials.write_private(target, "new")
    assert (target.read_text(), list(tmp_path.iterdir())) == ("new\n", [target])


def test_an_embedded_valkey_is_reached_with_its_password(tmp_path: Path) -> None:
    made = make_config(tmp_path)
    assert made.redis_url == f"redis://:{made.credentials.valkey_password}@127.0.0.1:{made.valkey_port}/0"


def test_a_redis_of_the_users_is_used_as_it_is(tmp_path: Path) -> None:
    made = make_config(tmp_path, {"REDIS_URL": "redis://elsewhere:6379/3"})
    assert (made.redis_url, made.valkey_port) == ("redis://elsewhere:6379/3", None)
    assert "valkey" not in [part.name for part in parts.build(made)]


def test_parts_start_with_valkey_and_stop_with_it_last(tmp_path: Path) -> None:
    made = parts.build(make_config(tmp_path))
    assert [part.name for part in made] == ["valkey", "web", "worker-1", "worker-2", "control", "beat", "flower"]
    assert {part.name: part.stage for part in made if part.name in {"valkey", "web", "worker-1", "beat"}} == {
        "web": Stage.WEB,
        "worker-1": Stage.WORKERS,
        "beat": Stage.SERVICES,
        "valkey": Stage.VALKEY,
    }


def test_no_secret_is_on_a_command_line(tmp_path: Path) -> None:
    made = make_config(tmp_path)
    words = " ".join(word for part in parts.build(made) for word in part.command)
    assert not [secret for secret in _secrets(made.credentials) if secret in words]


def test_workers_of_an_external_engine_are_told_its_url_and_no_device(tmp_path: Path) -> None:
    made = parts.build(make_config(tmp_path, engine=EngineKind.EXTERNAL, engine_url="http://gpu-7/v1"))
    [first, second] = [part.command for part in made if part.name.startswith("worker")]
    assert first[3:7] == ("--engine", "external", "--engine-url", "http://gpu-7/v1")
    assert "--device" not in first + second


def test_an_external_engine_without_a_url_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="--engine-url"):
        make_config(tmp_path, engine=EngineKind.EXTERNAL)


def test_the_environment_ties_parts_to_their_stack(tmp_path: Path) -> None:
    made = make_config(tmp_path)
    env = config.environment(made, {"PATH": "/bin", "REDIS_URL": ""})
    assert env["SLUICE_STATE_DIR"] == str(tmp_path)
    assert env["REDIS_URL"] == made.redis_url
    assert env["SLUICE_ENGINE"] == "sim"
    assert env["FLOWER_BASIC_AUTH"] == made.credentials.flower_login
    assert env["PATH"] == "/bin"


def test_celery_parts_say_nothing_of_root_and_what_else_the_user_wants_to_hear_is_kept(tmp_path: Path) -> None:
    env = config.environment(make_config(tmp_path), {**os.environ, "PYTHONWARNINGS": "error"})
    warning = "SecurityWarning(platforms.ROOT_DISCOURAGED.format(uid=0, euid=0, gid=0, egid=0))"
    codes = [_run_warning(env, what) for what in (f"exceptions.{warning}", "'something else'")]
    assert codes == [0, 1]


def _run_warning(env: dict[str, str], what: str) -> int:
    code = f"import warnings; from celery import exceptions, platforms; warnings.warn({what})"
    return subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode


def test_a_secret_key_of_the_users_wins(tmp_path: Path) -> None:
    env = config.environment(make_config(tmp_path), {"DJANGO_SECRET_KEY": "mine"})
    assert env["DJANGO_SECRET_KEY"] == "mine"


def test_a_stack_on_all_addresses_is_shown_on_one_that_can_be_opened(tmp_path: Path) -> None:
    made = make_config(tmp_path, host="0.0.0.0")
    assert made.base_url == f"http://127.0.0.1:{made.options.port}"
