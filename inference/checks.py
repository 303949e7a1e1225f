"""System checks: what would make a process of Sluice fail later is told by `manage.py check` and at its start."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.core import checks
from django.db import OperationalError, ProgrammingError, connection

from inference import errors, executor, snapshot, tokens
from inference.limits import Limits, ModelLimits
from inference.models import ServedModel

SPARE_CONNECTIONS: Final = 4
"""What the web process needs beside those of the API's threads."""


@checks.register(checks.Tags.security, deploy=True)
def check_secret_key(**_: Any) -> list[checks.CheckMessage]:
    """Refuse to deploy with the secret that everyone can read in the source, as a web process does to start."""
    if not str(settings.SECRET_KEY).startswith("insecure-"):
        return []
    return [checks.Error("DJANGO_SECRET_KEY is not set", hint="Set it to a long random string.", id="sluice.E001")]


@checks.register()
def check_connections(**_: Any) -> list[checks.CheckMessage]:
    """Warn of a pool of connections that is smaller than the threads which use it at once."""
    pool = settings.DATABASES["default"].get("OPTIONS", {}).get("pool")
    threads = executor.THREADS + executor.LARGE_THREADS
    if not pool or pool["max_size"] >= threads + SPARE_CONNECTIONS:
        return []
    told = f"SLUICE_DATABASE_CONNECTIONS is {pool['max_size']}; the API alone asks from {threads} threads"
    hint = f"Allow {threads + SPARE_CONNECTIONS} or more: the others are for pages and maintenance."
    return [checks.Warning(told, hint=hint, id="sluice.W005")]


@checks.register(checks.Tags.database)
def check_database(databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """Say that the database cannot be reached, and why; only where databases are checked."""
    if not databases:
        return []
    try:
        connection.ensure_connection()
    except OperationalError as error:
        return [checks.Error("The database is not reachable", hint=f"See DATABASE_URL: {error}", id="sluice.E002")]
    return check_limits()


def check_limits() -> list[checks.CheckMessage]:
    """Warn of limits under which requests would be refused. Reads the tables, if they are there yet."""
    if ServedModel._meta.db_table not in connection.introspection.table_names():
        return []
    try:
        limits = snapshot.read()
    except (OperationalError, ProgrammingError) as error:  # `migrate` runs this before it adds what is missing
        hint = "Apply the migrations: manage.py migrate."
        return [checks.Warning(f"The limits cannot be read: {error}", hint=hint, id="sluice.W005")]
    found = [*_of_lengths(limits), *_of_tiers(limits)]
    return found + [message for model in limits.models.values() for message in _of_model(model)]


def _of_lengths(limits: Limits) -> list[checks.CheckMessage]:
    if any(length.max_prompt_tokens is None for length in limits.lengths.values()):
        return []
    hint = "Leave the longest class's bound empty."
    return [checks.Warning("No length class is unbounded: long prompts are refused", hint=hint, id="sluice.W001")]


def _of_tiers(limits: Limits) -> list[checks.CheckMessage]:
    picks = Counter(value for tier in limits.tiers.values() for value in tier.service_tiers)
    doubled = sorted(value for value, count in picks.items() if count > 1)
    found: list[checks.CheckMessage] = []
    if not limits.tiers:
        found.append(checks.Warning("There is no tier: every request is refused", id="sluice.W002"))
    if doubled:
        hint = "Leave each value to one tier."
        told = f"Several tiers are picked by service_tier {', '.join(doubled)}"
        found.append(checks.Warning(told, hint=hint, id="sluice.W003"))
    return found


def _of_model(model: ModelLimits) -> list[checks.CheckMessage]:
    try:
        tokens.counter(model)
    except errors.Unavailable as error:
        hint = f"Looked in {tokens.folder_of(model)}. For the bundled model: manage.py fetch_model. "
        hint += "For one behind an external engine: tick 'estimate prompt tokens' in the admin."
        return [checks.Warning(str(error), hint=hint, id="sluice.W004")]
    return []
