"""What one worker process is told: parsed once, checked, frozen. It refuses to start rather than run wrongly."""

import hashlib
import os
import re
import socket
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from inference import routing
from inference.limits import Limits, ModelLimits
from inference.states import EngineKind
from workers import devices, engine_url
from workers.engine import EngineSpec

EVERYTHING: Final = ("*",)
MAX_SOCKET_PATH_BYTES: Final = 100
"""A Unix socket's path has little room."""
MAX_NODE_CHARACTERS: Final = 128
"""As many as a row has room for."""
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(@[A-Za-z0-9][A-Za-z0-9_.-]*)?")


class ConfigError(ValueError):
    """The worker cannot start as told; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said, and of the engine's key the environment."""

    device: str | None = None
    """None for an external engine only."""
    serve: tuple[str, ...] = EVERYTHING
    """Shell-style patterns of queue names."""
    model: str
    engine: EngineKind
    name: str | None = None
    """None: after the device."""
    engine_url: str | None = None
    """Of an external engine only."""
    engine_key: str = field(default="", repr=False)
    """Likewise; empty for an engine that asks for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where a worker keeps what it needs on disk."""

    state_dir: Path
    models_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """One worker: a Celery node, the queues it serves, and the engine it owns."""

    node: str
    """`name@host`: Celery's node name, and the worker's name in the registry and in rows."""
    host: str
    engine: EngineSpec
    serve: tuple[str, ...]
    queues: tuple[str, ...]
    """Those that matched at the start; the worker follows the tables from there on."""
    lease_seconds: float
    drain_seconds: float

    @property
    def model(self) -> ModelLimits:
        """The model whose queues it serves."""
        return self.engine.model

    @classmethod
    def from_options(
        cls, options: Options, *, limits: Limits, paths: Paths, lease_seconds: float, drain_seconds: float
    ) -> Self:
        """Check the options against the tables. Raises ConfigError."""
        node, host = _node(options)
        model = _model(options.model, limits)
        return cls(
            node=node,
            host=host,
            engine=_engine(options, model, node, paths),
            serve=options.serve,
            queues=_queues(options, model, limits),
            lease_seconds=lease_seconds,
            drain_seconds=drain_seconds,
        )

    def served_queues(self, limits: Limits) -> list[str]:
        """Those queues of the model that match as the tables are now."""
        return routing.served(limits.queues(), model=self.model.name, patterns=self.serve)


def _node(options: Options) -> tuple[str, str]:
    name = options.name or f"worker-{(options.device or devices.EXTERNAL).replace(',', '-')}"
    if not _NODE.fullmatch(name):
        raise ConfigError(f"--name {name!r}: letters, digits, '.', '_' and '-' only, with or without '@host'")
    first, _, host = name.partition("@")
    host = host or socket.gethostname()
    node = f"{first}@{host}"
    if len(node) > MAX_NODE_CHARACTERS:
        raise ConfigError(f"--name {node!r} is longer than {MAX_NODE_CHARACTERS} characters")
    return node, host


def _model(name: str, limits: Limits) -> ModelLimits:
    if name not in limits.models:
        known = ", ".join(sorted(limits.models)) or "none"
        raise ConfigError(f"--model {name!r} is not an enabled model; there are: {known}")
    return limits.models[name]


def _queues(options: Options, model: ModelLimits, limits: Limits) -> tuple[str, ...]:
    """Return the queues to serve; a pattern that matches none of them is a slip."""
    for pattern in options.serve:
        if not routing.served(limits.queues(), model=model.name, patterns=[pattern]):
            tiers, lengths = ", ".join(sorted(limits.tiers)), ", ".join(sorted(limits.lengths))
            raise ConfigError(
                f"--serve {pattern!r} matches no queue of {model.name!r}; queues are named MODEL.TIER.LENGTH, "
                f"with the tiers {tiers} and the length classes {lengths}"
            )
    return tuple(routing.served(limits.queues(), model=model.name, patterns=options.serve))


def _engine(options: Options, model: ModelLimits, node: str, paths: Paths) -> EngineSpec:
    is_external = options.engine is EngineKind.EXTERNAL
    return EngineSpec(
        kind=options.engine,
        model=model,
        device=_no_device(options) if is_external else _device(options, model),
        socket_path=_socket_path(paths.state_dir, node),
        log_path=paths.state_dir / "logs" / f"{node.partition('@')[0]}-engine.log",
        models_dir=paths.models_dir,
        url=_url(options) if is_external else "",
        key=_key(options) if is_external else "",
    )


def _device(options: Options, model: ModelLimits) -> str:
    if options.engine_url is not None:
        raise ConfigError(f"--engine-url: an engine of kind {options.engine} is the worker's own and has no URL")
    if options.device is None:
        raise ConfigError("--device is missing: cpu, or a GPU as in 0, or several as in 0,1")
    try:
        device = devices.parse(options.device)
        devices.tensor_parallel_size(device, wanted=model.tensor_parallel_size)
    except ValueError as error:
        raise ConfigError(f"--device: {error}") from error
    return options.device


def _no_device(options: Options) -> str:
    if options.device not in {None, devices.EXTERNAL}:
        raise ConfigError(f"--device {options.device!r}: an external engine has none of ours, leave it out")
    return devices.EXTERNAL


def _url(options: Options) -> str:
    if not options.engine_url:
        raise ConfigError("--engine-url is missing: where is the external engine?")
    try:
        return engine_url.parse(options.engine_url)
    except ValueError as error:
        raise ConfigError(f"--engine-url: {error}") from error


def _key(options: Options) -> str:
    if not re.fullmatch(r"[!-~]*", options.engine_key):
        raise ConfigError("SLUICE_ENGINE_KEY holds a character that no HTTP header can carry")
    return options.engine_key


def _socket_path(state_dir: Path, node: str) -> Path:
    """Return a path that two workers never share, short enough for a socket."""
    wanted = state_dir / "engines" / f"{node.partition('@')[0]}.sock"
    if len(os.fsencode(wanted)) <= MAX_SOCKET_PATH_BYTES:
        return wanted
    digest = hashlib.sha256(os.fsencode(wanted)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}" / f"{digest}.sock"
