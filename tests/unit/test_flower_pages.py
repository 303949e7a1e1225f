"""Flower's own names that `project.flower_pages` replaces: they must be there in the pinned release."""

import inspect
import logging
from pathlib import Path

import flower.inspector
import flower.urls
import flower.views
import pytest
from flower.api import control
from flower.views import workers
from tornado import web

from project import flower_pages

STOCK = Path(flower.urls.settings["template_path"])


@pytest.fixture
def routes() -> list[web.url]:
    return [*flower_pages._own_routes(), *flower_pages._kept_routes(flower.urls.handlers)]


def test_flower_asks_its_handlers_for_the_broker() -> None:
    assert callable(flower.views.BaseHandler.get_broker)


def test_flowers_workers_page_has_the_place_for_our_engines() -> None:
    assert (STOCK / "workers.html").read_text().count(flower_pages.WORKERS_ANCHOR) == 1


def test_our_engines_are_put_into_flowers_page() -> None:
    pages = flower_pages.Pages(str(flower_pages.PAGES), str(STOCK))
    assert "engines-table" in pages.load("engines.html").code
    assert "engines.html" in pages.load("workers.html").code


def test_our_queues_page_stands_for_flowers_broker_page() -> None:
    pages = flower_pages.Pages(str(flower_pages.PAGES), str(STOCK))
    assert "Backlog seconds" in pages.load("broker.html").code


def test_flowers_other_pages_are_its_own() -> None:
    pages = flower_pages.Pages(str(flower_pages.PAGES), str(STOCK))
    assert pages.load("tasks.html").code


@pytest.mark.parametrize("handler", flower_pages.SWITCHED_OFF)
def test_a_control_that_is_off_has_no_route(handler: type[web.RequestHandler], routes: list[web.url]) -> None:
    stock = {route.handler_class if isinstance(route, web.url) else route[1] for route in flower.urls.handlers}
    assert handler in stock
    assert handler not in {route.handler_class for route in _as_urls(routes)}


def test_revoke_stays(routes: list[web.url]) -> None:
    assert control.TaskRevoke in {route.handler_class for route in _as_urls(routes)}


def test_both_addresses_of_the_workers_page_show_our_engines(routes: list[web.url]) -> None:
    shown = [route for route in _as_urls(routes) if issubclass(route.handler_class, workers.WorkersView)]
    assert [route.handler_class for route in shown] == [flower_pages.WorkersPage] * 2


def test_routes_keep_the_names_that_flowers_templates_use(routes: list[web.url]) -> None:
    named = {route.name for route in _as_urls(routes)}
    assert {"main", "workers", "worker", "tasks", "task", "broker", "logout"} <= named


def test_workers_that_are_not_up_yet_are_no_warning_but_a_failure_with_a_reason_is() -> None:
    assert f'logger.warning("{flower_pages.NOBODY_ANSWERED}", method)' in inspect.getsource(flower.inspector)
    assert not flower_pages.is_news(_warning(flower_pages.NOBODY_ANSWERED, "stats"))
    assert flower_pages.is_news(_warning(f"{flower_pages.NOBODY_ANSWERED}: %s", "stats", "no connection"))


def _warning(text: str, *args: str) -> logging.LogRecord:
    return logging.LogRecord("flower.inspector", logging.WARNING, "", 0, text, args, None)


def _as_urls(routes: list[web.url]) -> list[web.url]:
    return [route if isinstance(route, web.url) else web.url(*route) for route in routes]
