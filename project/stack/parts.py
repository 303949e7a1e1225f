"""The parts of the stack: their commands, in the order they start; they stop in groups, by stage."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from django.conf import settings

from inference.states import EngineKind
from project.stack import valkey
from project.stack.config import StackConfig

LEASH: Final = Path(__file__).with_name("leash.py")
MANAGE: Final = settings.BASE_DIR / "manage.py"
STOP_MARGIN_SECONDS: Final = 10.0
"""What a part gets beyond its own grace period before it is killed."""


class Stage(IntEnum):
    """Who stops with whom; a lower stage is gone before the next is told."""

    WEB = 0
    """No new work comes in."""
    WORKERS = 1
    """What runs finishes, while maintenance and Valkey are still there."""
    SERVICES = 2
    VALKEY = 3


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the stack."""

    name: str
    command: tuple[str, ...]
    stage: Stage
    stop_seconds: float
    """From the request to stop until it is killed."""


def build(config: StackConfig) -> list[Part]:
    """All parts in the order they start: Valkey, web, workers, services."""
    parts = [_web(config), *_workers(config), _control(), _beat(), _flower(config)]
    return [_valkey(config), *parts] if config.valkey_port is not None else parts


def leashed(command: tuple[str, ...]) -> list[str]:
    """Wrap the command so that it is killed if this process dies without stopping it.

    -I -S: it costs milliseconds, not the import of every installed package's hooks.
    """
    return [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]


def _valkey(config: StackConfig) -> Part:
    command = (str(valkey.binary()), str(valkey.config_path(config.options.state_dir)))
    return Part("valkey", command, Stage.VALKEY, STOP_MARGIN_SECONDS)


def _web(config: StackConfig) -> Part:
    options = config.options
    command = _python(
        *("-m", "uvicorn", "project.asgi:application", "--host", options.host, "--port", str(options.port)),
        *("--loop", "uvloop", "--http", "httptools", "--lifespan", "on", "--log-level", "warning"),
        *("--no-access-log", "--no-server-header", "--timeout-graceful-shutdown", "5"),
    )
    return Part("web", command, Stage.WEB, STOP_MARGIN_SECONDS)


def _workers(config: StackConfig) -> list[Part]:
    pairs = zip(config.worker_names, config.options.devices, strict=True)
    served = config.options.serve
    return [_worker(config, name, device, served.get(i, ())) for i, (name, device) in enumerate(pairs, start=1)]


def _worker(config: StackConfig, name: str, device: str, served: Sequence[str]) -> Part:
    options = config.options
    serve = [f"--serve={pattern}" for pattern in served]
    where = ("--engine-url", options.engine_url) if options.engine is EngineKind.EXTERNAL else ("--device", device)
    command = manage("worker", "--engine", options.engine.value, *where, *serve, "--name", name)
    return Part(name.partition("@")[0], command, Stage.WORKERS, settings.DRAIN_SECONDS + STOP_MARGIN_SECONDS)


def _control() -> Part:
    options = ("-P", "threads", "-c", "2", "-Q", "control", "-n", "control@%h", "-l", "warning")
    # Nothing here asks what workers tell one another, and gossip breaks where Redis goes while it starts anew.
    return _celery("control", "worker", *options, "--without-gossip", "--without-mingle")


def _beat() -> Part:
    return _celery("beat", "beat", "--pidfile=", "-l", "warning")


def _flower(config: StackConfig) -> Part:
    conf = settings.BASE_DIR / "project" / "flowerconfig.py"
    address = (f"--address={config.options.host}", f"--port={config.flower_port}")
    return _celery("flower", "flower", f"--conf={conf}", "--logging=warning", *address)


def _celery(name: str, *arguments: str) -> Part:
    command = _python("-m", "celery", "--quiet", "-A", "project", *arguments)
    return Part(name, command, Stage.SERVICES, STOP_MARGIN_SECONDS)


def manage(*arguments: str) -> tuple[str, ...]:
    """Return the command line of a management command."""
    return _python(str(MANAGE), *arguments)


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)
