"""Flower with our queues and our workers: its own pages, filled from `inference.selectors`.

Flower has no plug-in interface. What is replaced here are names of the pinned release, against which
`tests/unit/test_flower_pages.py` holds them. Queries run in a thread: Flower renders pages on its event loop.
"""

import asyncio
import dataclasses
import datetime
import logging
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, Final

import flower.urls
import flower.views
from django.conf import settings
from django.db import connections
from flower.api import BaseApiHandler, control, tasks
from flower.views import broker, monitor, workers
from tornado import template, web

from inference import selectors

PAGES: Final = Path(settings.BASE_DIR) / "templates" / "flower"
"""Templates here win over Flower's of the same name."""

WORKERS_ANCHOR: Final = '<section class="workers-table-card"'
"""In Flower's workers page; our engines go before it."""

SWITCHED_OFF: Final = (
    control.WorkerShutDown,
    control.WorkerPoolRestart,
    control.WorkerPoolGrow,
    control.WorkerPoolShrink,
    control.WorkerPoolAutoscale,
    control.WorkerQueueAddConsumer,
    control.WorkerQueueCancelConsumer,
    control.TaskTimout,
    control.TaskRateLimit,
    tasks.TaskApply,
    tasks.TaskAsyncApply,
    tasks.TaskSend,
    tasks.TaskAbort,
)
"""Controls that would go around admission, or that our pool has no use for. Revoke and terminate stay."""


NOBODY_ANSWERED: Final = "Inspect method %s failed"
"""What Flower logs, without a reason behind it, when no worker answers one of its questions."""


def install() -> None:
    """Put our pages into Flower. Call it before Flower's application is built."""
    logging.getLogger("flower.inspector").addFilter(is_news)
    flower.views.BaseHandler.get_broker = lambda _: Queues()
    flower.urls.settings["template_loader"] = Pages(str(PAGES), flower.urls.settings["template_path"])
    flower.urls.handlers[:] = [*_own_routes(), *_kept_routes(flower.urls.handlers)]


def is_news(record: logging.LogRecord) -> bool:
    """Drop what is said when no worker answers: Flower asks once, as it starts, which is before workers are up.

    It asks again when a worker's page is opened, and says there that the worker did not answer.
    """
    return record.msg != NOBODY_ANSWERED


class Queues:
    """Stands in for Flower's broker: our queues under Flower's names for their columns."""

    async def queues(self, _names: Iterable[str] = ()) -> list[dict[str, Any]]:
        """Return all queues, whatever Flower asked for: one without a consumer must be seen too."""
        return [_broker_columns(row) for row in await _in_thread(queue_rows)]


def _broker_columns(row: dict[str, Any]) -> dict[str, Any]:
    waiting, held = row["jobs"], row["leases"]
    return {
        **row,
        "name": row["queue"],
        "messages": waiting + held,
        "messages_ready": waiting,
        "messages_unacknowledged": held,
    }


def queue_rows() -> list[dict[str, Any]]:
    """Return every job queue, then Celery's own, as plain values."""
    return [_plain(row) for row in [*selectors.queue_rows(names_operators=True), selectors.control_row()]]


def worker_rows() -> list[dict[str, Any]]:
    """Return every worker with its engine's state, as plain values."""
    return [_plain(row) for row in selectors.worker_rows(names_operators=True)]


def _plain(row: Any) -> dict[str, Any]:
    return {key: _value(value) for key, value in dataclasses.asdict(row).items()}


def _value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime.datetime) else value


async def _in_thread(query: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return await asyncio.to_thread(_with_fresh_connection, query)


def _with_fresh_connection(query: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    try:
        return query()
    finally:
        connections.close_all()  # threads come and go; a connection kept by one would never be used again


class QueuesApi(BaseApiHandler):
    """`/api/sluice/queues`."""

    @web.authenticated
    async def get(self) -> None:
        """Answer `{"queues": [...]}`."""
        self.write({"queues": await _in_thread(queue_rows)})


class WorkersApi(BaseApiHandler):
    """`/api/sluice/workers`."""

    @web.authenticated
    async def get(self) -> None:
        """Answer `{"workers": [...]}`."""
        self.write({"workers": await _in_thread(worker_rows)})


class WorkersPage(workers.WorkersView):
    """Flower's first page, with our workers' engines above its table."""

    engines: Collection[dict[str, Any]] = ()
    """Read by `engines.html`."""

    @web.authenticated
    async def get(self) -> None:
        """Show the page."""
        self.engines = await _in_thread(worker_rows)
        await super().get()


class WorkerPage(workers.WorkerView):
    """Flower's page of one worker, without the controls that are off."""

    def render(self, *args: Any, **kwargs: Any) -> None:
        """Render as if Flower were read-only."""
        super().render(*args, **{**kwargs, "read_only": True})


class Metrics(monitor.Metrics):
    """Flower's metrics, behind the login as well."""

    @web.authenticated
    async def get(self) -> None:
        """Answer in Prometheus's format."""
        await super().get()


OWN_PAGES: Final = {
    workers.WorkersView: WorkersPage,
    workers.WorkerView: WorkerPage,
    monitor.Metrics: Metrics,
}


def _own_routes() -> list[tuple[str, type[web.RequestHandler]]]:
    return [
        (r"/queues", broker.BrokerView),
        (r"/api/sluice/queues", QueuesApi),
        (r"/api/sluice/workers", WorkersApi),
    ]


def _kept_routes(routes: Iterable[Any]) -> list[Any]:
    """Flower's routes less the controls that are off, with our pages in the place of theirs."""
    named = [route if isinstance(route, web.url) else web.url(*route) for route in routes]
    return [
        web.url(
            route.regex.pattern, OWN_PAGES.get(route.handler_class, route.handler_class), route.kwargs, route.name
        )
        for route in named
        if route.handler_class not in SWITCHED_OFF
    ]


class Pages(template.Loader):
    """Flower's templates, with ours before them."""

    def __init__(self, own: str, stock: str) -> None:
        super().__init__(stock)
        self._own = Path(own)

    def _create_template(self, name: str) -> template.Template:
        path = self._own / name
        text = path.read_text() if path.exists() else (Path(self.root) / name).read_text()
        if name == "workers.html":
            text = text.replace(WORKERS_ANCHOR, '{% module Template("engines.html") %}' + WORKERS_ANCHOR, 1)
        return template.Template(text, name=name, loader=self)
