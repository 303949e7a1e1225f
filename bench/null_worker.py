"""`python -m bench.null_worker`: our worker as `manage.py worker` makes it, but for its engine and its events."""

import logging

import django

django.setup()

from django.conf import settings  # noqa: E402 - Django must be set up first

from bench.null_engine import NullEngine  # noqa: E402
from inference import snapshot  # noqa: E402
from inference.states import EngineKind  # noqa: E402
from project.celery import app  # noqa: E402
from workers.config import Options, Paths, WorkerConfig  # noqa: E402
from workers.engine import Engine, EngineSpec  # noqa: E402
from workers.pool import EnginePool  # noqa: E402


def _null(spec: EngineSpec) -> Engine:  # noqa: ARG001 - by the name that the pool uses
    return NullEngine()


class NullPool(EnginePool):
    """The pool on an engine that does nothing."""

    create_engine = staticmethod(_null)


def main() -> None:
    """Serve the one model until SIGTERM."""
    limits = snapshot.limits()
    [model] = limits.models
    config = WorkerConfig.from_options(
        Options(device="cpu", model=model, engine=EngineKind.SIM, name="worker@bench"),
        limits=limits,
        paths=Paths(state_dir=settings.STATE_DIR, models_dir=settings.MODELS_DIR),
        lease_seconds=settings.LEASE_SECONDS,
        drain_seconds=settings.DRAIN_SECONDS,
    )
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
    app.Worker(
        hostname=config.node,
        pool=NullPool.bound_to(config),
        concurrency=config.model.max_num_seqs,
        queues=list(config.queues),
        loglevel="INFO",
        task_events=False,
        without_mingle=True,
        without_gossip=True,
        quiet=True,
    ).start()


if __name__ == "__main__":
    main()
