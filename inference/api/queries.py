"""Query parameters of POSTs: there are none, so that one which means something is not ignored."""

from typing import Final

from django.http import HttpRequest

from inference import errors, fields

IGNORED: Final = frozenset({"api-version"})
"""What OpenAI's SDK for Azure adds to every request: it says nothing of the request itself."""


def check(request: HttpRequest) -> None:
    """Raise errors.InvalidRequest for a POST with a query parameter. What a POST asks for is in its body."""
    if request.method != "POST" or not request.META["QUERY_STRING"]:
        return
    for name in request.GET:
        if name not in IGNORED:
            message = f"{fields.show(name)}: a POST takes no query parameters here; put it into the body"
            raise errors.InvalidRequest(message, code="unknown_parameter", param=name[:100])
