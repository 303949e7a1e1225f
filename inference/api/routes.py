"""What the asynchronous routes share: synchronous views in threads, methods, an answer to what is not there."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from django.http.response import HttpResponseBase
from django.template.response import SimpleTemplateResponse

from inference import errors, executor
from inference.api.handler import ApiRequest

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def adapt(view: Callable[..., HttpResponseBase]) -> View:
    """Turn a synchronous view into an asynchronous one that runs, and renders, in a pool of `executor`."""

    @functools.wraps(view)
    async def run_view(request: ApiRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        return await executor.run_for(request.body_bytes, _rendered, view, request, *args, **kwargs)

    return run_view


def _rendered(view: Callable[..., HttpResponseBase], *args: object, **kwargs: object) -> HttpResponseBase:
    response = view(*args, **kwargs)
    if isinstance(response, SimpleTemplateResponse):
        response.render()
    return response


def only(method: str, view: View) -> View:
    """Return the view for this HTTP method alone."""

    @functools.wraps(view)
    async def checked(request: ApiRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.method != method:
            request.answer_headers["Allow"] = method
            raise errors.MethodNotAllowed(f"{request.path}: {request.method} is not allowed, only {method}")
        return await view(request, *args, **kwargs)

    return checked


async def nothing(request: ApiRequest, **kwargs: object) -> NoReturn:  # noqa: ARG001 - a view
    """Answer for an address that does not exist."""
    raise errors.NotFound(f"{request.path}: there is nothing at this address")
