"""What the asynchronous routes share: synchronous views in threads, methods, parameters, what is not there."""

import functools
from collections.abc import Callable, Collection, Coroutine
from typing import Any, NoReturn

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse

from inference import errors, executor
from inference.api import queries
from inference.api.handler import ApiRequest

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def adapt(view: Callable[..., HttpResponseBase], *, takes: Collection[str] | None = ()) -> View:
    """Turn a synchronous view into an asynchronous one that runs, and renders, in a pool of `executor`.

    `takes` are its query parameters; None: any.
    """

    @functools.wraps(view)
    async def run_view(request: ApiRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return await executor.run_for(request.body_bytes, _rendered, view, request, *args, **kwargs)

    return queries.taking(takes, run_view)


def _rendered(view: Callable[..., HttpResponseBase], *args: object, **kwargs: object) -> HttpResponseBase:
    response = view(*args, **kwargs)
    if isinstance(response, SimpleTemplateResponse):
        response.render()
    return response


def only(method: str, view: View, *, takes: Collection[str] = ()) -> View:
    """Return the view for this HTTP method alone, and with GET for HEAD; `takes` are its query parameters."""
    allowed = ("GET", "HEAD") if method == "GET" else (method,)

    @functools.wraps(view)
    async def checked(request: ApiRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method not in allowed:
            request.answer_headers["Allow"] = ", ".join(allowed)
            raise errors.MethodNotAllowed(f"{request.path}: {request.method} is not allowed, only {method}")
        response = await view(request, *args, **kwargs)
        return _head_of(response) if request.method == "HEAD" else response

    return queries.taking(takes, checked)


def _head_of(response: HttpResponseBase) -> HttpResponse:
    """Return the answer without its body: of a stream nothing is read."""
    return HttpResponse(status=response.status_code, headers=dict(response.headers))


async def nothing(request: ApiRequest, **kwargs: object) -> NoReturn:  # noqa: ARG001 - a view
    """Answer for an address that does not exist."""
    raise errors.NotFound(f"{request.path}: there is nothing at this address")
