"""JSON for DRF, by the parser that the whole API uses."""

from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

import orjson
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from inference.api import bodies

TAKES_JSON: Final = frozenset({"*/*", "application/json"})
"""`Accept` of most clients."""


class Negotiation(DefaultContentNegotiation):
    """DRF's, without its search where JSON is what is wanted and all that there is: at most submissions."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> Any:
        """Return a renderer that the client takes, and its media type. Raises what DRF's does."""
        known = list(renderers)
        is_plain = not format_suffix and not request.META["QUERY_STRING"]  # either may name another form
        is_json = len(known) == 1 and isinstance(known[0], JsonRenderer)
        if is_plain and is_json and request.META.get("HTTP_ACCEPT", "*/*") in TAKES_JSON:
            return known[0], JsonRenderer.media_type
        return super().select_renderer(request, known, format_suffix)


class ObjectParser(BaseParser):
    """Bodies are JSON objects; what is wrong with one is said as everywhere."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """Parse the body. Raises errors.InvalidRequest."""
        return bodies.parse(stream.read())


class JsonRenderer(BaseRenderer):
    """Writes results as the engine wrote them (`orjson.Fragment`), without parsing them."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> bytes:
        """Return the JSON, with moments as DRF writes them; nothing for no data."""
        return b"" if data is None else orjson.dumps(data, option=orjson.OPT_UTC_Z)
