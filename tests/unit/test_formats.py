"""What clients take is found as DRF finds it, only sooner."""

from typing import Any

import pytest
from django.test import RequestFactory
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer, StaticHTMLRenderer
from rest_framework.request import Request

from inference.api.native.formats import JsonRenderer, Negotiation


def chosen(
    negotiation: DefaultContentNegotiation, *renderers: BaseRenderer, query: str, accept: str | None
) -> Any:
    headers = {} if accept is None else {"Accept": accept}
    asked = Request(RequestFactory().get(f"/api/v1/jobs/{query}", headers=headers))
    try:
        return negotiation.select_renderer(asked, renderers)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("query", ["", "?limit=1", "?format=json", "?format=xml"])
@pytest.mark.parametrize(
    "accept",
    [
        None,
        "*/*",
        "application/json",
        "application/*",
        "application/json, text/html;q=0.5",
        "text/html",
        "",
        "nonsense",
    ],
)
def test_the_answer_is_drfs(accept: str | None, query: str) -> None:
    json, html = JsonRenderer(), StaticHTMLRenderer()
    for known in ([json], [html], [json, html], [html, json]):
        found, expected = (
            chosen(kind(), *known, query=query, accept=accept) for kind in (Negotiation, DefaultContentNegotiation)
        )
        assert found == expected


def test_who_takes_no_json_is_told() -> None:
    assert chosen(Negotiation(), JsonRenderer(), query="", accept="text/html") is NotAcceptable
