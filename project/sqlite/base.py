"""The backend: named by `DATABASES["default"]["ENGINE"]`, the module's name is Django's."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import OperationalError
from django.db.backends.sqlite3 import base


class NoDatabase(OperationalError, CommandError):
    """There is no file yet. To a process an outage as any other; who typed a command reads it as one line."""


class DatabaseWrapper(base.DatabaseWrapper):
    """Opens a file that is there; SQLite itself would make an empty one for whoever comes."""

    makes_file = False
    """Set by who may make it."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Connect. Raises NoDatabase, with the remedy, where there is nothing to open."""
        name = str(self.settings_dict["NAME"])
        if not (self.makes_file or self.is_in_memory_db() or Path(name).exists()):
            raise NoDatabase(
                f"there is no database {name} yet: run `manage.py migrate` (or `up`) first; "
                "SLUICE_STATE_DIR and DATABASE_URL say which database it is"
            )
        return super().get_new_connection(conn_params)
