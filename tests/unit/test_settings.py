"""`DATABASE_URL` becomes what Django takes."""

import os
import subprocess
import sys
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import settings


def parsed(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    monkeypatch.setenv("DATABASE_URL", url)
    return settings._database()


def test_postgresql_gets_a_pool_and_no_persistent_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed(monkeypatch, "postgres://sluice:secret@db.example:5433/jobs?sslmode=require&conn_max_age=60")
    assert config["ENGINE"] == "project.postgresql"
    assert (config["HOST"], config["PORT"], config["NAME"]) == ("db.example", 5433, "jobs")
    assert config["CONN_MAX_AGE"] == 0
    assert config["OPTIONS"]["sslmode"] == "require"
    assert config["OPTIONS"]["pool"]["max_size"] == settings.DATABASE_CONNECTIONS


def test_an_option_in_the_url_wins_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed(monkeypatch, "postgres://db.example/jobs?connect_timeout=9")
    assert int(config["OPTIONS"]["connect_timeout"]) == 9


def test_sqlite_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parsed(monkeypatch, "sqlite:////var/lib/sluice/jobs.sqlite3")
    assert config["NAME"] == "/var/lib/sluice/jobs.sqlite3"
    assert "synchronous=FULL" in config["OPTIONS"]["init_command"]
    assert "pool" not in config["OPTIONS"]


def test_another_database_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"SQLite and PostgreSQL, not on .*mysql"):
        parsed(monkeypatch, "mysql://db.example/jobs")


@pytest.mark.once
@pytest.mark.parametrize(("name", "value"), [("DATABASE_URL", "bogus://x"), ("SLUICE_LEASE_SECONDS", "long")])
def test_a_wrong_setting_is_told_in_one_line(name: str, value: str) -> None:
    command, env = [sys.executable, "manage.py", "check"], {**os.environ, name: value}
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert [name in line for line in (done.stdout + done.stderr).splitlines()] == [True]
