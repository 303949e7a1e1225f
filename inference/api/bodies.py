"""Request bodies: bounded before they are read whole, parsed strictly, never trusted."""

import json
from typing import Any

import orjson

from inference import errors, executor
from inference.limits import MAX_BODY_BYTES


def too_large(size: int, *, limit: int = MAX_BODY_BYTES) -> errors.TooLarge:
    """Return the error for a body of `size` bytes, or of at least so many."""
    return errors.TooLarge(f"body: at most {limit} bytes are accepted, got {size} or more", param="body")


def parse(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises errors.InvalidRequest for anything else.

    NaN and lone surrogates pass: whoever checks the fields can name the one that holds them.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        body = _parse_leniently(raw, error)
    if not isinstance(body, dict):
        kind = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(
            type(body), "a number"
        )
        raise errors.InvalidRequest(f"body: must be a JSON object, got {kind}", param="body")
    return body


def _parse_leniently(raw: bytes, error: orjson.JSONDecodeError) -> Any:
    try:
        return json.loads(raw.decode())
    except UnicodeDecodeError as undecoded:
        found = f"not valid UTF-8 at byte {undecoded.start + 1}"
    except (ValueError, RecursionError):
        found = f"not valid JSON ({error.msg} at line {error.lineno}, column {error.colno})"
    # The decoder's error, which is being handled outside, holds the body.
    raise errors.InvalidRequest(f"body: {found}", code="invalid_json", param="body") from None


async def read(raw: bytes) -> dict[str, Any]:
    """Parse a request's body, a large one in the pool: the event loop must go on. Errors as of `parse`."""
    return await executor.run(parse, raw) if len(raw) > executor.LARGE_BYTES else parse(raw)
