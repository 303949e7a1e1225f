"""One envelope for every error of the API, OpenAI's: `{"error": {"message", "type", "param", "code"}}`.

SDKs choose their exception class by the status, so the status says whose problem it is and `code` what it is.
"""

import json
import logging
import math
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import django.core.exceptions
import django.db
import django.http
import orjson
from django.http import HttpResponse
from rest_framework import exceptions as drf

from inference import broker, errors
from inference.api.authentication import CHALLENGE

logger = logging.getLogger(__name__)

TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
"""`type` by status; other 4xx are `invalid_request_error`, 5xx `server_error`."""

NEVER_RETRY: Final = {"x-should-retry": "false"}
"""OpenAI's SDKs obey it; they would otherwise repeat 409 and 5xx."""


def response(error: Exception) -> HttpResponse:
    """Return the answer to a request that ended with `error`; what is not expected is logged and answered 500."""
    known = translate(error)
    _let_go(error)
    # In ASCII: a message may quote a lone surrogate, which UTF-8 cannot hold.
    said = json.dumps(envelope(known))
    return HttpResponse(said, status=known.status, content_type="application/json", headers=headers(known))


def exception_handler(error: Exception, context: Mapping[str, Any]) -> HttpResponse:  # noqa: ARG001 - DRF's signature
    """DRF's hook: the same envelope for its own errors."""
    return response(error)


def envelope(error: errors.SluiceError) -> dict[str, Any]:
    """Return the body of an error."""
    default = "server_error" if error.status >= 500 else "invalid_request_error"
    kind = TYPES.get(error.status, default)
    said = {"message": error.message, "type": kind, "param": error.param, "code": error.code}
    return {"error": said | dict(error.details)}


def event(error: errors.SluiceError) -> bytes:
    """Return the last bytes of an event stream that an error ends."""
    return b"data: " + orjson.dumps(envelope(error)) + b"\n\n"


def headers(error: errors.SluiceError) -> dict[str, str]:
    """Return what a client should know before it reads the body."""
    is_final = isinstance(error, errors.JobFailed) or error.status == 409
    is_hopeless = error.status == 429 and error.retry_after_seconds is None
    found = {**error.headers, **(NEVER_RETRY if is_final or is_hopeless else {})}
    if error.retry_after_seconds is not None:
        # Whole seconds, rounded up: earlier would be refused again.
        found["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    if error.status == 401:
        found["WWW-Authenticate"] = CHALLENGE
    return found


def translate(error: Exception) -> errors.SluiceError:
    """Say of any exception whose problem it is. What is nobody's is ours: logged, and 500 without detail."""
    known = error if isinstance(error, errors.SluiceError) else _of_caller(error) or _of_surroundings(error)
    if known is None:
        logger.error("request failed", exc_info=error, extra={"action": "api_error"})
        known = errors.SluiceError("Internal error.", code="internal_error")
    return known


def _let_go(error: BaseException | None) -> None:
    """Empty the frames that the error keeps, of which some hold the body: the collector may come by much later."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _of_caller(error: Exception) -> errors.SluiceError | None:
    match error:
        case drf.ValidationError():
            param, message = _first(error.detail)
            return errors.InvalidRequest(f"{param}: {message}", param=param)
        case drf.APIException():
            code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, error.default_code)
            return errors.SluiceError(str(error.detail), code=code, status=error.status_code)
        case django.http.Http404():
            return errors.NotFound("There is nothing at this address.")
        case django.core.exceptions.BadRequest() | django.core.exceptions.SuspiciousOperation():
            return errors.InvalidRequest("The request is malformed.", code="bad_request")
    return None


def _of_surroundings(error: Exception) -> errors.SluiceError | None:
    match error:
        case broker.BrokerAway():
            return _away("The queue is not reachable.", "queue_unavailable", error)
        case django.db.OperationalError() | django.db.InterfaceError():
            return _away("The database is not reachable.", "database_unavailable", error)
    return None


def _away(message: str, code: str, error: Exception) -> errors.Unavailable:
    logger.warning("%s (%s)", message, type(error).__name__, extra={"action": code})
    return errors.Unavailable(message, code=code)


def _first(detail: Any, path: str = "") -> tuple[str, str]:
    """Find the first complaint in what a serializer says, and where: `jobs[3].endpoint`."""
    if isinstance(detail, Mapping):
        key, inner = next(iter(detail.items()))
        # Complaints about a list's items come keyed by place; those about a whole object under its own name.
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
        return _first(inner, path if key == "non_field_errors" else path + step)
    if isinstance(detail, Sequence) and not isinstance(detail, str):
        place, inner = next((p, d) for p, d in enumerate(detail) if d)
        return _first(inner, f"{path}[{place}]" if isinstance(inner, Mapping) else path)
    return path or "body", str(detail)
