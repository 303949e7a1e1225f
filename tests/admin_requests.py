"""Every address that the admin has, and what might be sent to it by somebody who means to change something.

Both come from the admin's own patterns and actions: a page that is new is among them.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from django.contrib import admin
from django.db.models import Model
from django.urls import NoReverseMatch, URLPattern, reverse

from tests import factories

Keys = Mapping[type[Model], Sequence[Any]]
"""The rows that there are, by their keys."""
Address = tuple[type[Model] | None, str]

QUEUE: Final = f"{factories.MODEL}.standard.short"
_OWN: Final = {"logout", "password_change", "login"}
"""What everyone may do, to themselves."""
CRAFTED: Final[dict[str, Any]] = {
    **dict.fromkeys(("weight", "max_jobs", "max_in_flight", "max_queued_jobs", "requests_per_minute"), "77"),
    **dict.fromkeys(("is_paused", "is_draining", "revoked", "is_operator", "is_superuser", "is_staff"), "on"),
    "name": "crafted",
    "status": "succeeded",
    "queue": QUEUE,
    "tenant": "default",
    "username": "crafted",
    "post": "yes",
    "_confirmed": "yes",
    "tier": "bulk",
    "password1": "a-long-password",
    "usable_password": "true",
    "password2": "a-long-password",
}


def addresses(keys: Keys) -> list[Address]:
    """Every page of the admin, for each model with the first of its rows."""
    found: dict[str, type[Model] | None] = {}
    for model, pattern in _patterns():
        row = keys[model][:1] if model and model in keys else ()
        for args in ([], [*row], [*row, 1], ["inference"]):
            with contextlib.suppress(NoReverseMatch):
                if pattern.name and pattern.name not in _OWN:
                    found[reverse(f"admin:{pattern.name}", args=args)] = model
    return [(model, address) for address, model in found.items()]


def bodies(model: type[Model] | None, address: str, keys: Keys) -> Iterator[dict[str, Any]]:
    """What might be sent to a page: a form; to a list its rows, and each action."""
    if model is None or not address.endswith(f"/{model._meta.model_name}/"):
        yield CRAFTED
        return
    chosen = [str(key) for key in keys.get(model, ())]
    yield CRAFTED | _rows(model, chosen)
    actions = cast(Any, admin.site._registry[model].actions)
    for action in (*actions, "delete_selected"):
        yield CRAFTED | {"action": action, "_selected_action": chosen, "index": "0"}


def _patterns() -> Iterator[tuple[type[Model] | None, URLPattern]]:
    yield from ((None, pattern) for pattern in admin.site.get_urls() if isinstance(pattern, URLPattern))
    for model, model_admin in admin.site._registry.items():
        yield from ((model, pattern) for pattern in model_admin.get_urls())


def _rows(model: type[Model], keys: Sequence[str]) -> dict[str, Any]:
    """The rows of a list as its form would send them."""
    numbers = {f"form-{i}-{model._meta.pk.name}": key for i, key in enumerate(keys)}
    values = {f"form-{i}-{field}": value for i in range(len(keys)) for field, value in CRAFTED.items()}
    return values | numbers | {"form-TOTAL_FORMS": len(keys), "form-INITIAL_FORMS": len(keys), "_save": "Save"}
