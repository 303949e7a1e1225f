"""How the admin looks, and where it leads: the settings of django-unfold."""

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy

TEAL: Final = {
    "50": "oklch(98.4% .014 180.72)",
    "100": "oklch(95.3% .051 180.801)",
    "200": "oklch(91% .096 180.426)",
    "300": "oklch(85.5% .138 181.071)",
    "400": "oklch(77.7% .152 181.912)",
    "500": "oklch(70.4% .14 182.503)",
    "600": "oklch(51.1% .096 186.391)",
    "700": "oklch(43.7% .078 188.216)",
    "800": "oklch(38.6% .063 188.416)",
    "900": "oklch(33% .054 190)",
    "950": "oklch(27.7% .046 192.524)",
}
"""The dashboard's colour."""


def _file(path: str) -> Callable[[HttpRequest], str]:
    """Return the address of a static file, once it is asked for: while settings are read nobody knows it."""
    return lambda _request: static(path)


def _list(title: str, icon: str, name: str, app: str = "inference") -> dict[str, Any]:
    """Return a link to the list of a model, for those who may look at it."""
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{app}_{name}_changelist"),
        "permission": lambda request: request.user.has_perm(f"{app}.view_{name}"),
    }


def _section(title: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "separator": True, "items": items}


NAVIGATION: Final = [
    {"items": [{"title": "Overview", "icon": "monitoring", "link": reverse_lazy("admin:index")}]},
    _section(
        "Limits",
        _list("Tiers", "stacks", "tier"),
        _list("Length classes", "straighten", "lengthclass"),
        _list("Queues", "low_priority", "queuelimit"),
        _list("Models", "neurology", "servedmodel"),
    ),
    _section(
        "Fleet",
        _list("Workers", "memory", "worker"),
        _list("Halted workers", "pause_circle", "workerlimit"),
    ),
    _section(
        "Tenants",
        _list("Tenants", "domain", "tenant"),
        _list("API keys", "key", "apikey"),
        _list("Memberships", "badge", "membership"),
    ),
    _section(
        "Prices",
        _list("Prices", "sell", "price"),
        _list("Budgets", "savings", "budget"),
        _list("Usage", "bar_chart", "usage"),
    ),
    _section("Jobs", _list("Jobs", "receipt_long", "job"), _list("Events", "timeline", "jobevent")),
    _section(
        "People and history",
        _list("Users", "person", "user", "auth"),
        _list("Groups", "group", "group", "auth"),
        _list("History", "history", "edit"),
    ),
]

UNFOLD: Final = {
    "SITE_TITLE": "Sluice",
    "SITE_HEADER": "Sluice administration",
    "SITE_URL": None,  # the account's links lead there
    "SITE_ICON": _file("dashboard/icon.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": _file("dashboard/icon.svg")}],
    "SHOW_BACK_BUTTON": True,
    "STYLES": [_file("dashboard/admin.css")],
    "COLORS": {"primary": TEAL},
    "ENVIRONMENT": "inference.admin.overview.environment",
    "DASHBOARD_CALLBACK": "inference.admin.overview.context",
    "ACCOUNT": {
        "navigation": [
            {"title": "Dashboard", "link": reverse_lazy("dashboard:home")},
            {"title": "API", "link": reverse_lazy("docs")},
            {"title": "Change password", "link": reverse_lazy("admin:password_change")},
        ]
    },
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": NAVIGATION},
}
