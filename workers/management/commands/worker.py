"""`manage.py worker`: one engine, and the Celery worker that feeds it."""

import logging
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from inference import snapshot
from inference.management import database
from inference.models import ServedModel
from inference.states import EngineKind
from project.celery import app
from workers.config import EVERYTHING, ConfigError, Options, Paths, WorkerConfig
from workers.pool import EnginePool


class Command(BaseCommand):
    """Serves a model's queues with one engine, on a device or at a URL, until SIGTERM or Ctrl-C; then drains."""

    help = (
        "Serve a model's queues with one engine. SIGTERM or Ctrl-C drains: what runs is finished "
        "(up to SLUICE_DRAIN_SECONDS), the rest given back; a second one gives all back at once. "
        "Exits non-zero if the engine cannot be loaded."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument(
            "--device", help="cpu, or a GPU as in 0, or several as in 0,1; an external engine needs none"
        )
        parser.add_argument(
            "--serve",
            action="append",
            metavar="PATTERN",
            help="queues to serve (MODEL.TIER.LENGTH), as '*.realtime.*' or '*.long'; give it again for more; "
            "default: all of the model",
        )
        parser.add_argument("--model", help="name of the model; default: the default model")
        parser.add_argument(
            "--engine", choices=[kind.value for kind in EngineKind], default=settings.ENGINE_KIND, help="its kind"
        )
        parser.add_argument(
            "--engine-url",
            metavar="URL",
            help="where an external engine is, as in https://host:8000/v1; its key comes from SLUICE_ENGINE_KEY",
        )
        parser.add_argument("--name", help="the worker's name, with or without @host; default: after the device")

    def handle(self, **options: Any) -> None:
        """Run until told to stop; the exit status says whether that was the end of a sound worker."""
        try:
            with database.explained():
                config = make_config(_told(options))
        except ConfigError as error:
            raise CommandError(str(error)) from error
        worker = make_worker(config)
        worker.start()
        sys.exit(worker.exitcode)


def make_worker(config: WorkerConfig, *, pool: type[EnginePool] = EnginePool, task_events: bool = True) -> Any:
    """Return the Celery worker, not yet started; without `task_events` Celery tells no monitor of its tasks."""
    # It writes a line per message; the execution's own line says more.
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    return app.Worker(
        hostname=config.node,
        pool=pool.bound_to(config),
        concurrency=config.model.max_num_seqs,
        queues=list(config.queues),
        loglevel="INFO",
        task_events=task_events,
        without_mingle=True,
        without_gossip=True,
        quiet=True,
    )


def make_config(told: Options) -> WorkerConfig:
    """Return the worker's configuration by its options, the tables and the settings. Raises ConfigError."""
    return WorkerConfig.from_options(
        told,
        limits=snapshot.limits(),
        paths=Paths(state_dir=settings.STATE_DIR, models_dir=settings.MODELS_DIR),
        lease_seconds=settings.LEASE_SECONDS,
        drain_seconds=settings.DRAIN_SECONDS,
    )


def _told(options: dict[str, Any]) -> Options:
    kind = EngineKind(options["engine"])
    return Options(
        device=options["device"],
        serve=tuple(options["serve"] or EVERYTHING),
        model=options["model"] or _default_model(),
        engine=kind,
        name=options["name"],
        engine_url=options["engine_url"] or _default_url(kind),
        engine_key=settings.ENGINE_KEY,
    )


def _default_url(kind: EngineKind) -> str | None:
    return (settings.ENGINE_URL or None) if kind is EngineKind.EXTERNAL else None


def _default_model() -> str:
    name = ServedModel.objects.filter(enabled=True, is_default=True).values_list("name", flat=True).first()
    if name is None:
        raise ConfigError("no enabled model is the default: name one with --model")
    return name
