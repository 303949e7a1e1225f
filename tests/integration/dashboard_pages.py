"""The dashboard's pages and the browsers of those who log in."""

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from inference import control
from inference.broker import Broker
from inference.models import Membership
from tests import factories

HOME = "/dashboard/"
BOARD = "/dashboard/board/"
SUBMIT = "/dashboard/jobs/"
HTMX = {"HX-Request": "true"}
QUEUE = f"{factories.MODEL}.standard.short"


@pytest.fixture(autouse=True)
def no_broadcast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker is told of a cancel: there is none."""
    monkeypatch.setattr(control, "abort", lambda *_: None)


def make_user(name: str, *, tenant: str | None = None, **fields: Any) -> User:
    """One who may log in, and works for the tenant if it is given."""
    user = User.objects.create_user(name, **fields)
    if tenant:
        Membership.objects.create(user=user, tenant_id=tenant)
    return user


def browser_of(user: User) -> Client:
    """A browser in which the user is logged in."""
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def member(sluice: Broker, tokenizer: Path) -> Client:
    """The browser of one who works for the tenant acme."""
    factories.make_tenant("acme", weight=5)
    return browser_of(make_user("ada", tenant="acme"))


def form(**fields: str) -> dict[str, str]:
    """The form of a prompt, filled in."""
    return {"prompt": "Hello", "model": factories.MODEL, "tier": "standard", "max_tokens": "8"} | fields
