"""Query parameters that mean nothing where they stand, or two things: refused, so that none is ignored."""

from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from django.http import HttpRequest

from inference import errors, fields

IGNORED: Final = frozenset({"api-version"})
"""What OpenAI's SDK for Azure adds to every request: it says nothing of the request itself."""

View = TypeVar("View", bound=Callable[..., Any])


def taking(names: Collection[str] | None, view: View) -> View:
    """Note on a route's view which query parameters it takes; None: any."""
    vars(view)["query_parameters"] = names
    return view


def check(request: HttpRequest, view: Callable[..., Any]) -> None:
    """Raise errors.InvalidRequest for a parameter that the view does not take, or that is given more than once.

    A POST has none: what it asks for is in its body.
    """
    if not request.META["QUERY_STRING"]:
        return
    known: Collection[str] | None = vars(view).get("query_parameters")
    for name in request.GET:
        if name in IGNORED:
            continue
        if request.method == "POST":
            raise _unknown(
                name, f"{fields.show(name)}: a POST takes no query parameters here; put it into the body"
            )
        if known is not None and name not in known:
            names = f"the parameters are {', '.join(known)}" if known else "there is none here"
            raise _unknown(name, f"{name[:64]}: unknown parameter; {names}")
        if (times := len(request.GET.getlist(name))) > 1:
            raise errors.InvalidRequest(f"{name[:64]}: given {times} times; give it once", param=name[:100])


def _unknown(name: str, message: str) -> errors.InvalidRequest:
    return errors.InvalidRequest(message, code="unknown_parameter", param=name[:100])
