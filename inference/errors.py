"""Errors sorted by whose problem they are; the API turns each into one envelope and status."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(eq=False)
class SluiceError(Exception):
    """Base of what a caller may see. `code` is stable, `message` names field, limit and value."""

    message: str
    code: str = "error"
    param: str | None = None
    status: int = 500
    retry_after_seconds: float | None = None
    details: Mapping[str, str | float] = field(default_factory=dict)
    """For machines, beside `code`: of a refusal its reason, the limit and how it stands."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of the answer."""

    def __str__(self) -> str:
        return self.message


@dataclass(eq=False)
class InvalidRequest(SluiceError):
    """The caller's fault: a field is wrong."""

    code: str = "invalid_value"
    status: int = 400


@dataclass(eq=False)
class TooLarge(SluiceError):
    """The body is larger than the limit."""

    code: str = "request_too_large"
    status: int = 413


@dataclass(eq=False)
class TooSlow(SluiceError):
    """The body did not arrive in time."""

    code: str = "request_timeout"
    status: int = 408


@dataclass(eq=False)
class NotFound(SluiceError):
    """No such model or job for this caller."""

    code: str = "not_found"
    status: int = 404


@dataclass(eq=False)
class Unauthenticated(SluiceError):
    """No key, or one that is unknown, revoked or expired."""

    code: str = "invalid_api_key"
    status: int = 401


@dataclass(eq=False)
class MethodNotAllowed(SluiceError):
    """The address exists, but not for this HTTP method."""

    code: str = "method_not_allowed"
    status: int = 405


@dataclass(eq=False)
class Forbidden(SluiceError):
    """The key may not do this."""

    code: str = "forbidden"
    status: int = 403


@dataclass(eq=False)
class JobFailed(SluiceError):
    """The job was accepted and ended without an answer. The queue has done its retrying: the client should not."""

    code: str = "failed"
    status: int = 500


@dataclass(eq=False)
class Rejected(SluiceError):
    """Admission refused: try again after `retry_after_seconds`."""

    code: str = "queue_full"
    status: int = 429
    retry_after_seconds: float | None = 1.0


@dataclass(eq=False)
class Unavailable(SluiceError):
    """Something Sluice stands on is away: try again later."""

    code: str = "unavailable"
    status: int = 503
    retry_after_seconds: float | None = 2.0
