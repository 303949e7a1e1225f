"""Where there is no database yet, who looks is told so and leaves none behind; `migrate` makes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

pytestmark = pytest.mark.once

LOOKS = [
    ["queues"],
    ["workers", "--json"],
    ["create_key", "--tenant", "default", "--name", "x"],
    ["worker", "--engine", "sim", "--device", "cpu"],
    ["showmigrations"],
    ["dumpdata", "inference.tier"],
    ["check", "--database", "default"],
    ["migrate", "--plan"],
]


def manage(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    command = [sys.executable, "manage.py", *words]
    env["SLUICE_STATE_DIR"] = str(state)
    return subprocess.run(command, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_a_look_tells_what_to_do_and_makes_nothing(tmp_path: Path, words: list[str]) -> None:
    done = manage(tmp_path, *words)

    assert done.returncode == 1
    assert f"there is no database {tmp_path}/sluice.sqlite3 yet: run `manage.py migrate`" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_migrate_makes_it_and_then_a_look_finds_it(tmp_path: Path) -> None:
    assert manage(tmp_path, "migrate", "--verbosity=0").returncode == 0

    done = manage(tmp_path, "showmigrations", "--plan")
    assert (done.returncode, "[ ]" in done.stdout) == (0, False)
