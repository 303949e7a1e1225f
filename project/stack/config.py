"""What one stack is made of: the options of `manage.py up`, checked and frozen, and the ports it settled on."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import redis

from inference.states import EngineKind
from project.stack import ports
from project.stack.credentials import Credentials
from workers import devices, engine_url

AS_ROOT: Final = "ignore:You're running the worker with superuser privileges"
"""Celery's warning is of messages that run code as root; ours are JSON, and no worker accepts anything else."""


class StackError(Exception):
    """The stack can't start or can't go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of `manage.py up`."""

    engine: EngineKind
    host: str
    port: int
    state_dir: Path
    devices: tuple[str, ...]
    """One for each engine worker; without a meaning where the engine is external."""
    ready_file: Path | None
    engine_url: str = ""
    """Of an external engine; its key is in the environment."""
    serve: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Queue patterns by a worker's number, from 1 on; a worker that is not there serves all of its model."""


@dataclass(frozen=True, slots=True)
class StackConfig:
    """Options with everything that was found or chosen at the start."""

    options: Options
    flower_port: int
    valkey_port: int | None
    """Port of the embedded Valkey; None when `REDIS_URL` names another."""
    redis_url: str
    credentials: Credentials

    @property
    def base_url(self) -> str:
        """Where the web process answers."""
        return f"http://{_reachable(self.options.host)}:{self.options.port}"

    @property
    def flower_url(self) -> str:
        """Where Flower answers."""
        return f"http://{_reachable(self.options.host)}:{self.flower_port}"

    @property
    def redis_address(self) -> str:
        """Where the Redis server is, without its password."""
        return _redis_address(self.redis_url)

    @property
    def worker_names(self) -> list[str]:
        """Celery node names of the engine workers."""
        return [f"worker-{i}@{socket.gethostname()}" for i in range(1, len(self.options.devices) + 1)]


def _reachable(host: str) -> str:
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104 - compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def devices_of_workers(named: Sequence[str], count: int | None) -> tuple[str, ...]:
    """One device for each worker: those named, or the CPU `count` times, once by default.

    Raises StackError where name and number disagree, or two engines would share a GPU.
    """
    if not named:
        return (devices.CPU,) * (1 if count is None else count)
    if count not in {None, len(named)}:
        raise StackError(
            f"--workers {count} and --device {' --device '.join(named)} do not agree: leave out --workers"
        )
    gpus = [gpu.strip() for name in named if name != devices.CPU for gpu in name.split(",")]
    if twice := sorted({gpu for gpu in gpus if gpus.count(gpu) > 1}):
        raise StackError(f"--device: {twice[0]} is named twice, but an engine takes all memory of its GPU")
    return tuple(named)


def patterns_of_workers(named: Sequence[str], count: int) -> dict[int, tuple[str, ...]]:
    """Read `N=PATTERN`s: what worker N of `count` serves. Raises StackError where there is no such worker."""
    found: dict[int, tuple[str, ...]] = {}
    for text in named:
        number, _, pattern = text.partition("=")
        if not (number.isdecimal() and pattern and 1 <= int(number) <= count):
            numbers = f"a worker's number from 1 to {count}" if count else "a worker's number, but there is none"
            raise StackError(f"--serve {text!r}: it is N=PATTERN, as 1=*.realtime.*, with N {numbers}")
        found[int(number)] = (*found.get(int(number), ()), pattern)
    return found


def build(options: Options, credentials: Credentials, environ: Mapping[str, str] = os.environ) -> StackConfig:
    """Settle the ports. Raises StackError if the web port is taken, or an external engine has no URL."""
    if options.engine is EngineKind.EXTERNAL:
        _check_external(options)
    if not ports.is_free(options.host, options.port):
        raise StackError(
            f"port {options.port} on {options.host} is taken: stop what listens there, or choose another (--port)"
        )
    external = environ.get("REDIS_URL")
    if external:
        _redis_address(external)
    flower_port = ports.for_flower(options.host, options.port)
    spoken_for = [options.port, flower_port]
    valkey_port = None if external else ports.any_free("127.0.0.1", spoken_for=spoken_for)
    return StackConfig(
        options=options,
        flower_port=flower_port,
        valkey_port=valkey_port,
        redis_url=external or f"redis://:{credentials.valkey_password}@127.0.0.1:{valkey_port}/0",
        credentials=credentials,
    )


def _redis_address(url: str) -> str:
    """Return it without the password. Raises StackError for what is no such URL."""
    try:
        found = redis.connection.parse_url(url)  # type: ignore[no-untyped-call]
    except ValueError as error:
        raise StackError(f"REDIS_URL: {error}") from error
    return str(found.get("path") or f"{found.get('host', 'localhost')}:{found.get('port', 6379)}")


def _check_external(options: Options) -> None:
    try:
        engine_url.parse(options.engine_url)
    except ValueError as error:
        raise StackError(f"--engine external needs its --engine-url: {error}") from error
    if set(options.devices) - {devices.CPU}:
        raise StackError("--device: an external engine has none of ours, leave it out")


def environment(config: StackConfig, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment of every part: the caller's, with what ties the parts to this one stack."""
    options = config.options
    return {
        **environ,
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": ",".join(filter(None, [environ.get("PYTHONWARNINGS"), AS_ROOT])),
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "DJANGO_SECRET_KEY": environ.get("DJANGO_SECRET_KEY") or config.credentials.django_secret_key,
        "DJANGO_ALLOWED_HOSTS": environ.get("DJANGO_ALLOWED_HOSTS") or _allowed_hosts(options.host),
        "SLUICE_STATE_DIR": str(options.state_dir),
        "SLUICE_ENGINE": options.engine.value,
        "REDIS_URL": config.redis_url,
        "FLOWER_BASIC_AUTH": config.credentials.flower_login,
    }


def _allowed_hosts(host: str) -> str:
    return ",".join(dict.fromkeys(["localhost", "127.0.0.1", "[::1]", host, socket.gethostname()]))
