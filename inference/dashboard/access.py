"""Who is at the dashboard, and for which tenant: a user by the session that Django's login made."""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Concatenate, Final, ParamSpec
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse

from inference import errors, halts, snapshot
from inference.api.errors import headers, translate
from inference.dashboard import texts
from inference.models import Membership, Tenant
from inference.submission import Caller

P = ParamSpec("P")

DEFAULT_TENANT: Final = "default"
"""Whom staff without a membership work for; made by the first migration."""

CONTENT_SECURITY_POLICY: Final = "; ".join(
    [
        "default-src 'self'",  # so no inline script runs, whatever a model or a tenant writes
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    ]
)


def caller_of(user: User | AnonymousUser) -> Caller:
    """Return whose work the user submits. Raises errors.Unauthenticated, errors.Forbidden for one of no tenant."""
    if not isinstance(user, User):
        raise errors.Unauthenticated("You are not logged in.", code="not_logged_in")
    membership = Membership.objects.select_related("tenant").filter(user=user).first()
    tenant = membership.tenant if membership else _tenant_of_staff(user)
    if tenant is None:
        message = f"User {user.get_username()} belongs to no tenant yet: ask an admin to choose one in the admin."
        raise errors.Forbidden(message, code="no_tenant")
    is_operator = user.is_staff and user.has_perms(halts.PERMISSIONS)
    return Caller(
        tenant=tenant.name,
        tenant_weight=tenant.weight,
        tenant_limits=snapshot.tenant_limits(tenant),
        is_operator=is_operator,
    )


def caller_by_cookie(request: HttpRequest) -> Caller:
    """Do the same for a request that passed no middleware. Blocks; raises as `caller_of` does."""
    engine = importlib.import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
    return caller_of(auth.get_user(request))


def member(
    view: Callable[Concatenate[HttpRequest, Caller, P], HttpResponse],
) -> Callable[Concatenate[HttpRequest, P], HttpResponseBase]:
    """Let only those in who work for a tenant, hand the view that caller, and show errors in words."""

    @functools.wraps(view)
    def checked(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            response: HttpResponseBase = view(request, caller_of(request.user), *args, **kwargs)
        except errors.Unauthenticated:
            response = _to_login(request)
        except Exception as error:  # the last resort: every error is told in words
            response = problem(request, translate(error))
        return guarded(response)

    return checked


def guarded(response: HttpResponseBase) -> HttpResponseBase:
    """Forbid the browser whatever the pages do not need, and to keep what only this user may see."""
    response.headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
    response.headers["Cache-Control"] = "no-store"
    return response


def problem(request: HttpRequest, error: errors.SluiceError) -> HttpResponse:
    """Return the error in words: a page, or for a request of htmx's the notice on the page."""
    is_part = is_htmx(request)
    template = "dashboard/_notice.html" if is_part else "dashboard/problem.html"
    response = render(request, template, {"error": error, "told": texts.why(error)}, status=error.status)
    swap = {"HX-Retarget": "#notice", "HX-Reswap": "innerHTML"} if is_part else {}
    return with_headers(response, headers(error) | swap)


def with_headers(response: HttpResponse, told: Mapping[str, str]) -> HttpResponse:
    """Return the response with these headers."""
    for name, value in told.items():
        response.headers[name] = value
    return response


def is_htmx(request: HttpRequest) -> bool:
    """Whether htmx asks, for a part of a page."""
    return request.headers.get("HX-Request") == "true"


def _tenant_of_staff(user: User) -> Tenant | None:
    """Return the default tenant for staff who may change jobs: a viewer changes nothing here either."""
    may = user.is_staff and user.has_perm("inference.change_job")
    return Tenant.objects.filter(name=DEFAULT_TENANT).first() if may else None


def _to_login(request: HttpRequest) -> HttpResponse:
    home = reverse("dashboard:home")
    back = home if is_htmx(request) else request.get_full_path()
    address = f"{reverse('dashboard:login')}?{urlencode({'next': back})}"
    if is_htmx(request):  # it would follow a redirect itself, and put the login into the page's middle
        return HttpResponse(status=204, headers={"HX-Redirect": address})
    return redirect(address)
