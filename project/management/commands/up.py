"""`manage.py up`: all of Sluice on this machine, in one terminal."""

from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference.states import EngineKind
from project.stack import config as stack_config
from project.stack import runner
from project.stack.config import Options, StackError
from workers import devices


class Command(BaseCommand):
    """Run Valkey, web, engine workers, maintenance and Flower until Ctrl-C."""

    help = (
        "Run the whole stack: Valkey (or the server in REDIS_URL), migrations, the web server, engine workers, "
        "maintenance and Flower. A part that dies is started again. Ctrl-C or SIGTERM stops everything; a second "
        "one hurries. When all parts are ready, URLs and logins are printed."
    )
    requires_system_checks = ()  # prepare_stack runs them, with the stack's own settings

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        _add_engine(parser)
        _add_workers(parser)
        _add_places(parser)

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run until stopped. Raises CommandError (exit status 1) if the stack can't start or a part fails."""
        try:
            runner.run(_options(options))
        except StackError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("interrupted before anything was started", returncode=130) from None


def _add_engine(parser: CommandParser) -> None:
    parser.add_argument(
        "--engine",
        choices=[kind.value for kind in EngineKind],
        default=settings.ENGINE_KIND,
        help="vllm: the model itself; sim: an engine's timing only; external: at a URL (%(default)s)",
    )
    parser.add_argument(
        "--engine-url",
        default=settings.ENGINE_URL,
        metavar="URL",
        help="where an external engine is, as in https://host:8000/v1; its key comes from SLUICE_ENGINE_KEY",
    )


def _add_workers(parser: CommandParser) -> None:
    parser.add_argument(
        "--device",
        dest="devices",
        action="append",
        type=_device,
        default=[],
        help="one engine worker's: cpu, or a GPU as in 0, or several as in 0,1; again for another worker",
    )
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="engine workers, on the CPU if no --device is given (1)"
    )
    parser.add_argument(
        "--serve",
        action="append",
        default=[],
        metavar="N=PATTERN",
        help="queues of worker N, as 1=*.realtime.*; give it again for more; a worker without serves all",
    )


def _add_places(parser: CommandParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address of web and Flower (%(default)s)")
    parser.add_argument("--port", type=_port, default=8000, help="port of the web server (%(default)s)")
    parser.add_argument(
        "--state",
        type=Path,
        default=settings.STATE_DIR,
        metavar="DIR",
        help="folder for the database, Valkey's data, logs and logins (%(default)s)",
    )
    parser.add_argument(
        "--ready-file",
        type=Path,
        metavar="FILE",
        help="write URLs and logins here, as JSON, when all parts are ready; removed at the end",
    )


def _options(options: dict[str, Any]) -> Options:
    ready_file: Path | None = options["ready_file"]
    devices_of_workers = stack_config.devices_of_workers(options["devices"], options["workers"])
    return Options(
        engine=EngineKind(options["engine"]),
        host=options["host"],
        port=options["port"],
        state_dir=options["state"].resolve(),
        devices=devices_of_workers,
        ready_file=ready_file.resolve() if ready_file else None,
        engine_url=options["engine_url"],
        serve=stack_config.patterns_of_workers(options["serve"], len(devices_of_workers)),
    )


def _port(text: str) -> int:
    return _between(text, 1, 65535)


def _count(text: str) -> int:
    return _between(text, 0, 64)


def _between(text: str, low: int, high: int) -> int:
    if not (text.isdecimal() and low <= int(text) <= high):
        raise ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
    return int(text)


def _device(text: str) -> str:
    try:
        devices.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error
    return text
