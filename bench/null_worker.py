"""`python -m bench.null_worker`: our worker as `manage.py worker` makes it, but for its engine and its events."""

import django

django.setup()

from bench.null_engine import NullEngine  # noqa: E402 - Django must be set up first
from inference import snapshot  # noqa: E402
from inference.states import EngineKind  # noqa: E402
from workers.config import Options  # noqa: E402
from workers.engine import Engine, EngineSpec  # noqa: E402
from workers.management.commands import worker  # noqa: E402
from workers.pool import EnginePool  # noqa: E402


def _null(spec: EngineSpec) -> Engine:  # noqa: ARG001 - by the name that the pool uses
    return NullEngine()


class NullPool(EnginePool):
    """The pool on an engine that does nothing."""

    create_engine = staticmethod(_null)


def main() -> None:
    """Serve the one model until SIGTERM."""
    [model] = snapshot.limits().models
    told = Options(device="cpu", model=model, engine=EngineKind.SIM, name="worker@bench")
    worker.make_worker(worker.make_config(told), pool=NullPool, task_events=False).start()


if __name__ == "__main__":
    main()
