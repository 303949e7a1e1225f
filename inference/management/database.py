"""What management commands say of a database that they cannot use."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import OperationalError, ProgrammingError, connection


@contextmanager
def explained() -> Iterator[None]:
    """Raise CommandError, naming the database and the remedy, where it has no tables or cannot be reached."""
    try:
        yield
    except CommandError:
        raise  # it says so itself
    except (OperationalError, ProgrammingError) as error:
        raise CommandError(
            f"the database {_name()} cannot be used ({str(error).strip()}): "
            "run `manage.py migrate` (or `up`) first; SLUICE_STATE_DIR and DATABASE_URL say which database it is"
        ) from error


def _name() -> str:
    """Return where it is; never the password."""
    found = connection.settings_dict
    return f"{found['NAME']} at {found['HOST']}" if found["HOST"] else str(found["NAME"])
