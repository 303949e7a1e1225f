"""`manage.py create_key`."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from inference.models import ApiKey


def create_key(*args: str) -> str:
    out = io.StringIO()
    call_command("create_key", *args, stdout=out)
    return out.getvalue()


def test_the_key_alone_is_printed_and_works(db: None) -> None:
    key = create_key("--tenant", "default", "--name", "demo").removesuffix("\n")
    row = ApiKey.objects.get()

    assert row.is_valid(key)
    assert (row.tenant_id, row.name, row.tiers.count()) == ("default", "demo", 0)


def test_a_key_can_be_bound_to_tiers(db: None) -> None:
    create_key("--tenant", "default", "--name", "night", "--tier", "bulk")

    assert [tier.name for tier in ApiKey.objects.get().tiers.all()] == ["bulk"]


@pytest.mark.parametrize(("more", "is_operator"), [((), False), (("--operator",), True)])
def test_a_key_is_an_operators_only_if_that_is_said(db: None, more: tuple[str, ...], is_operator: bool) -> None:
    create_key("--tenant", "default", "--name", "ops", *more)

    assert ApiKey.objects.get().is_operator is is_operator


@pytest.mark.once  # on a file of its own
def test_a_database_without_tables_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite3").touch()
    env = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path}/empty.sqlite3"}
    for words in (
        ["create_key", "--tenant", "default", "--name", "x"],
        ["worker", "--engine", "sim", "--device", "cpu"],
    ):
        command = [sys.executable, "manage.py", *words]
        done = subprocess.run(command, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert f"{tmp_path}/empty.sqlite3 cannot be used (no such table" in done.stderr
        assert "run `manage.py migrate` (or `up`) first" in done.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--tenant", "nobody", "--name", "x"], "no tenant nobody; there are: default"),
        (
            ["--tenant", "default", "--name", "x", "--tier", "gold"],
            "no tier gold; there are: bulk, realtime, standard",
        ),
    ],
)
def test_a_wrong_name_is_told_with_the_right_ones(db: None, args: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        create_key(*args)

    assert not ApiKey.objects.exists()
