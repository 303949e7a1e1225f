"""`manage.py create_key`: makes an API key and prints it, once."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from inference import edits
from inference.management import database, halting
from inference.models import ApiKey, Tenant, Tier


class Command(BaseCommand):
    """Prints the key alone on standard output; only its hash is kept."""

    help = "Make an API key for a tenant and print it. It cannot be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        """Say whose key and which tiers."""
        parser.add_argument("--tenant", required=True, help="Name of the tenant.")
        parser.add_argument("--name", required=True, help="What the key is for; shown in admin.")
        parser.add_argument(
            "--tier", action="append", default=[], help="A tier it may use; repeatable. None is all."
        )
        parser.add_argument(
            "--operator", action="store_true", help="It may pause, resume and drain queues and workers."
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002 - Django's signature
        """Make the key. Raises CommandError for a tenant or tier that does not exist, or without a database."""
        with database.explained():
            self.stdout.write(_new_key(options))


def _new_key(options: dict[str, Any]) -> str:
    _check("tenant", {options["tenant"]}, set(Tenant.objects.values_list("name", flat=True)))
    _check("tier", set(options["tier"]), set(Tier.objects.values_list("name", flat=True)))
    with transaction.atomic():
        row, key = ApiKey.objects.create_key(
            name=options["name"], tenant_id=options["tenant"], is_operator=options["operator"]
        )
        row.tiers.set(options["tier"])  # type: ignore[attr-defined]
        edits.record(row, {}, edits.values_of(row), by=halting.by())
    return str(key)


def _check(what: str, asked: set[str], known: set[str]) -> None:
    if unknown := sorted(asked - known):
        raise CommandError(f"no {what} {', '.join(unknown)}; there are: {', '.join(sorted(known))}")
