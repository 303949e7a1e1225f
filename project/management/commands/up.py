"""`manage.py up`: all of Sluice on this machine, in one terminal."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference.states import EngineKind
from project.stack import runner
from project.stack.config import Options, StackError


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
        parser.add_argument(
            "--engine",
            type=EngineKind,
            choices=list(EngineKind),
            default=EngineKind(settings.ENGINE_KIND),
            metavar="{vllm,sim,external}",
            help="vllm: the model on the CPU; sim: an engine's timing only; external: at a URL (%(default)s)",
        )
        parser.add_argument(
            "--engine-url",
            default=settings.ENGINE_URL,
            metavar="URL",
            help="where an external engine is, as in https://host:8000/v1; its key comes from SLUICE_ENGINE_KEY",
        )
        parser.add_argument("--host", default="127.0.0.1", help="address of web and Flower (%(default)s)")
        parser.add_argument("--port", type=_port, default=8000, help="port of the web server (%(default)s)")
        parser.add_argument(
            "--state",
            type=Path,
            default=settings.STATE_DIR,
            metavar="DIR",
            help="folder for the database, Valkey's data, logs and logins (%(default)s)",
        )
        parser.add_argument("--workers", type=_count, default=1, metavar="N", help="engine workers (%(default)s)")
        parser.add_argument(
            "--ready-file",
            type=Path,
            metavar="FILE",
            help="write URLs and logins here, as JSON, when all parts are ready; removed at the end",
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Run until stopped. Raises CommandError (exit status 1) if the stack can't start or a part fails."""
        try:
            runner.run(_options(options))
        except StackError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("interrupted before anything was started", returncode=130) from None


def _options(options: dict[str, Any]) -> Options:
    ready_file: Path | None = options["ready_file"]
    return Options(
        engine=options["engine"],
        host=options["host"],
        port=options["port"],
        state_dir=options["state"].resolve(),
        workers=options["workers"],
        ready_file=ready_file.resolve() if ready_file else None,
        engine_url=options["engine_url"],
    )


def _port(text: str) -> int:
    return _between(text, 1, 65535)


def _count(text: str) -> int:
    return _between(text, 0, 64)


def _between(text: str, low: int, high: int) -> int:
    number = int(text)
    if not low <= number <= high:
        raise ValueError(f"{number} is not between {low} and {high}")
    return number
