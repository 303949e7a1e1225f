"""JSON for DRF, by the parser that the whole API uses."""

from collections.abc import Mapping
from typing import IO, Any

import orjson
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from inference.api import bodies


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
        """Return the JSON; nothing for no data."""
        return b"" if data is None else orjson.dumps(data)
