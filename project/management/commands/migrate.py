"""`manage.py migrate`: Django's, which makes SQLite's file if there is none."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connections

from project.sqlite.base import DatabaseWrapper


class Command(migrate.Command):
    """Migrates; a mere look at what would be done makes nothing."""

    def execute(self, *args: Any, **options: Any) -> Any:
        """Check, which looks at the database, and migrate. Errors as of Django's."""
        connection = connections[options["database"]]
        if isinstance(connection, DatabaseWrapper):
            connection.makes_file = not (options["plan"] or options["check_unapplied"])
        return super().execute(*args, **options)
