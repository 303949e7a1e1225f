"""Refuses what no text column holds before a page asks the database for it. The API checks its own fields."""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import BadRequest
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware
from django.views import defaults

Handler = Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def refuse_null_bytes(get_response: Any) -> Handler:
    """Answer an address that holds a NUL with the page of 400. In a form Django's own fields refuse it."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            refusal = _refusal(request)
            return refusal if refusal else await get_response(request)

        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _refusal(request) or get_response(request)

    return answer


def _refusal(request: HttpRequest) -> HttpResponseBase | None:
    if "\0" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
        return defaults.bad_request(request, BadRequest())
    return None
