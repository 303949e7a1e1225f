"""The admin's pages, as a superuser asks for them."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from inference import control
from inference.broker import Broker


@pytest.fixture
def page(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The site as a superuser sees it."""
    monkeypatch.setattr("django.conf.settings.STORAGES", _plain_static_files())
    monkeypatch.setattr(control, "abort", lambda *_: None)
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def _plain_static_files() -> dict[str, Any]:
    return {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


def url(model: type[Model], page: str, *args: Any) -> str:
    """Path of one of the model's pages: changelist, add, change."""
    return reverse(f"admin:inference_{model._meta.model_name}_{page}", args=args)


def act(client: Client, model: type[Model], action: str, *keys: object) -> str:
    """Do an action of a list to the rows; return the page after it."""
    data = {"action": action, "_selected_action": [str(key) for key in keys]}
    shown: str = send(client, url(model, "changelist"), data).content.decode()
    return shown


def send(client: Client, path: str, data: dict[str, Any]) -> Any:
    """Send a form; who is asked whether they are sure says yes. Returns the page after it."""
    answer = client.post(path, data, follow=True)
    is_asked = "admin/confirm.html" in [template.name for template in answer.templates]
    return client.post(path, data | {"_confirmed": "yes"}, follow=True) if is_asked else answer


def fields_of(row: Model, **changes: Any) -> dict[str, Any]:
    """The row as its form would send it."""
    values = {f.name: f.value_from_object(row) for f in row._meta.concrete_fields}
    texts = {name: "" if value is None else value for name, value in values.items() if value is not False}
    return {name: _as_sent(name, value) for name, value in texts.items()} | changes


def _as_sent(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return ", ".join(value) if name == "service_tiers" else json.dumps(value)
