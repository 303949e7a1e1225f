"""Who is calling: a tenant by its API key. One class serves the DRF views and the asynchronous ones."""

import asyncio
import functools
import hashlib
import re
import time
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from inference import errors, executor, snapshot
from inference.api import ahead
from inference.models import ApiKey
from inference.submission import Caller

MAX_AGE_SECONDS: Final = 1.0
"""How long a revoked key may still work."""

CACHE_SIZE: Final = 10_000

KEY: Final = re.compile(r"sk-[A-Za-z0-9]{8}\.[A-Za-z0-9]{40}")
"""The form of our keys; what differs is refused without asking the database."""

CHALLENGE: Final = 'Bearer realm="sluice"'

_UNKNOWN: Final = (0.0, None)
_known: dict[bytes, tuple[float, Caller]] = {}
_asking: "dict[tuple[asyncio.AbstractEventLoop, bytes], tuple[float, asyncio.Task[Caller]]]" = {}
"""Look-ups under way, each with when it began."""


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """What DRF calls the user."""

    caller: Caller
    is_authenticated: bool = True
    is_active: bool = True


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer sk-…`."""

    def authenticate(self, request: Request | HttpRequest) -> tuple[KeyHolder, None]:
        """Return who calls. Raises errors.Unauthenticated; nothing else authenticates here, so never None."""
        key = bearer(_header(request))
        return KeyHolder(_cached(key) or _look_up(key)), None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - DRF's signature
        """Return the challenge of a 401."""
        return CHALLENGE


async def caller(request: HttpRequest) -> Caller:
    """Return who calls, as `caller_by_header` does."""
    return await caller_by_header(_header(request))


async def caller_by_header(authorization: str) -> Caller:
    """Return who calls, from the event loop: a thread is waited for only with a key not seen within a second.

    Raises errors.Unauthenticated.
    """
    key = bearer(authorization)
    expires_at, known = _known.get(_digest(key), _UNKNOWN)
    left = expires_at - time.monotonic()
    if known is None or left <= 0:
        return await _asked_once(key)
    ahead.plan(_digest(key), functools.partial(_asked_once, key), seconds_left=left)
    return known


async def _asked_once(key: str) -> Caller:
    """Look a key up: once for all requests that ask for it meanwhile, or each second would begin with a herd.

    One that takes longer than a key may be known for is joined by nobody: the key may be revoked by now.
    """
    place = asyncio.get_running_loop(), _digest(key)
    began_at, asking = _asking.get(place, (0.0, None))
    if asking is None or time.monotonic() - began_at >= MAX_AGE_SECONDS:
        asking = asyncio.create_task(executor.run(_look_up, key))
        _asking[place] = time.monotonic(), asking
        asking.add_done_callback(functools.partial(_end, place))
    return await asyncio.shield(asking)


def _end(place: "tuple[asyncio.AbstractEventLoop, bytes]", asking: "asyncio.Task[Caller]") -> None:
    if place in _asking and _asking[place][1] is asking:
        del _asking[place]
    if not asking.cancelled():
        asking.exception()  # seen, though all who waited may have left


def bearer(authorization: str) -> str:
    """Return the key in the header. Raises errors.Unauthenticated if there is none of our form."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise errors.Unauthenticated("No API key: send `Authorization: Bearer sk-...`.", code="missing_api_key")
    if not KEY.fullmatch(key.strip()):
        raise errors.Unauthenticated("Incorrect API key.")
    return key.strip()


def forget() -> None:
    """Drop what is cached. For tests."""
    _known.clear()


def _header(request: Request | HttpRequest) -> str:
    return str(request.META.get("HTTP_AUTHORIZATION", ""))


def _cached(key: str) -> Caller | None:
    expires_at, known = _known.get(_digest(key), _UNKNOWN)
    return known if time.monotonic() < expires_at else None


def _look_up(key: str) -> Caller:
    asked_at = time.monotonic()
    try:
        row = ApiKey.objects.select_related("tenant").prefetch_related("tiers").get(prefix=key.partition(".")[0])
    except ApiKey.DoesNotExist:
        raise _incorrect(key) from None
    if row.revoked or row.has_expired or not row.is_valid(key):
        raise _incorrect(key)
    found = _caller(row)
    if len(_known) >= CACHE_SIZE:
        _known.clear()
    _known[_digest(key)] = (asked_at + MAX_AGE_SECONDS, found)
    return found


def _incorrect(key: str) -> errors.Unauthenticated:
    """Know the key no longer, should it have been right until now."""
    _known.pop(_digest(key), None)
    return errors.Unauthenticated("Incorrect API key.")


def _caller(row: ApiKey) -> Caller:
    tiers = frozenset(tier.name for tier in row.tiers.all())
    return Caller(
        tenant=row.tenant_id,
        api_key_id=row.pk,
        tiers=tiers or None,
        tenant_weight=row.tenant.weight,
        key_limits=snapshot.key_limits(row),
        tenant_limits=snapshot.tenant_limits(row.tenant),
        is_operator=row.is_operator,
    )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()
