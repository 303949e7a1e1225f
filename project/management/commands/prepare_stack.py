"""`manage.py prepare_stack`: what `up` needs of the database before any part starts."""

import dataclasses
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from inference.models import ApiKey, Tenant
from project.stack import credentials
from project.stack.credentials import Credentials

TENANT: Final = "default"


class Command(BaseCommand):
    """Migrate, and make the admin and the API key of `credentials.json` exist."""

    help = "Migrate the database and make the embedded stack's admin user and API key, once. Run by `up`."

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Do it; safe to repeat. Raises CommandError without a database."""
        try:
            call_command("migrate", interactive=False, verbosity=0)
        except OperationalError as error:
            raise CommandError(f"the database is not reachable; see DATABASE_URL ({error})") from error
        kept = credentials.load(settings.STATE_DIR)
        _ensure_admin(kept)
        if not (kept.api_key and ApiKey.objects.is_valid(kept.api_key)):
            credentials.save(settings.STATE_DIR, dataclasses.replace(kept, api_key=_new_key()))


def _ensure_admin(kept: Credentials) -> None:
    """Make the superuser if there is none of that name; a password changed since is left alone."""
    users = get_user_model().objects
    if not users.filter(username=kept.admin_user).exists():
        users.create_superuser(username=kept.admin_user, password=kept.admin_password)


def _new_key() -> str:
    tenant, _ = Tenant.objects.get_or_create(name=TENANT)
    _, key = ApiKey.objects.create_key(name="manage.py up", tenant=tenant)
    return str(key)
