"""The tests' own choice of a database."""

from pathlib import Path

import pytest

from tests import databases, postgresql


@pytest.fixture
def without_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_missing", ["it is not installed"])


@pytest.mark.parametrize(
    ("ci", "status", "said"), [("", 0, "NOT TESTED on PostgreSQL"), ("true", 1, "FAILED on PostgreSQL")]
)
def test_a_missing_server_is_said_and_in_ci_a_failure(
    without_server: None, monkeypatch: pytest.MonkeyPatch, ci: str, status: int, said: str
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.exit.Exception, match=f"{said}: it is not installed") as found:
        databases.pytest_sessionstart()
    assert found.value.returncode == status


def test_a_machine_without_a_server_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    with pytest.raises(postgresql.NoServer, match="apt-get install postgresql"):
        postgresql.find()
