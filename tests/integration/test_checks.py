"""`manage.py check` tells what would fail later."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError, connection

from inference import checks
from inference.models import LengthClass, Tier
from tests import factories, tokenizers_for_tests


@pytest.fixture
def model_files(models_dir: Path) -> Path:
    return tokenizers_for_tests.write(models_dir / factories.MODEL)


def ids(databases: list[str] | None = None) -> list[str | None]:
    return [message.id for message in checks.check_database(databases=databases or ["default"])]


def test_the_seeded_limits_pass(db: None, model_files: Path) -> None:
    assert ids() == []


def test_a_model_without_files_is_told_with_the_place_looked_at(db: None, models_dir: Path) -> None:
    [message] = checks.check_database(databases=["default"])

    assert message.id == "sluice.W004"
    assert str(models_dir / factories.MODEL) in str(message.hint)


def test_tables_of_an_older_version_are_told_and_do_not_stop_their_migration(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {Tier._meta.db_table} RENAME COLUMN weight TO old")

    assert ids() == ["sluice.W005"]


def test_a_bounded_longest_class_is_told(db: None, model_files: Path) -> None:
    LengthClass.objects.filter(name="long").update(max_prompt_tokens=4096)

    assert ids() == ["sluice.W001"]


def test_a_service_tier_of_two_tiers_is_told(db: None, model_files: Path) -> None:
    Tier.objects.filter(name="bulk").update(service_tiers=["flex", "priority"])

    assert ids() == ["sluice.W003"]


def test_no_tier_at_all_is_told(db: None, model_files: Path) -> None:
    Tier.objects.all().delete()

    assert ids() == ["sluice.W002"]


def test_without_tables_or_databases_nothing_is_read(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.check_database(databases=None) == []
    monkeypatch.setattr(connection.introspection, "table_names", list)
    assert checks.check_database(databases=["default"]) == []


def test_a_database_that_is_away_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "ensure_connection", fail)
    [message] = checks.check_database(databases=["default"])
    assert message.id == "sluice.E002"
    assert "connection refused" in str(message.hint)


@pytest.mark.parametrize(("size", "told"), [(13, ["sluice.W005"]), (14, [])])
def test_fewer_connections_than_threads_are_told(
    monkeypatch: pytest.MonkeyPatch, size: int, told: list[str]
) -> None:
    config = {"default": {"OPTIONS": {"pool": {"max_size": size}}}}
    monkeypatch.setattr("django.conf.settings.DATABASES", config)
    assert [message.id for message in checks.check_connections()] == told


def test_sqlite_has_no_pool_to_be_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.conf.settings.DATABASES", {"default": {"OPTIONS": {}}})
    assert checks.check_connections() == []


def test_the_public_secret_key_is_refused_in_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django.conf.settings.SECRET_KEY", "insecure-for-development-only")
    assert [message.id for message in checks.check_secret_key()] == ["sluice.E001"]
    monkeypatch.setattr("django.conf.settings.SECRET_KEY", "x" * 60)
    assert checks.check_secret_key() == []


@pytest.mark.parametrize(
    ("env", "starts"),
    [({}, False), ({"DJANGO_DEBUG": "true"}, True), ({"DJANGO_SECRET_KEY": "x" * 60}, True)],
    ids=["by hand", "debug", "with a key"],
)
@pytest.mark.once
def test_a_web_process_without_a_key_of_its_own_does_not_start(env: dict[str, str], *, starts: bool) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")}
    started = subprocess.run(
        [sys.executable, "-c", "import project.asgi"],
        env=inherited | env,
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (started.returncode == 0) == starts, started.stderr
    assert ("DJANGO_SECRET_KEY is not set: Set it to a long random string." in started.stderr) != starts
