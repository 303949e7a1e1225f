"""Migrations go back and forth with rows in the tables, in a database of their own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from django.conf import settings

from tests import databases

THERE_AND_BACK: Final = """
from django.core.management import call_command as do
from inference import halts
from inference.models import QueueLimit, Tier
do("migrate", verbosity=0)
QueueLimit.objects.create(queue="m.bulk.long", max_jobs=7, max_in_flight=3)
halts.halt_queues(halts.Action.PAUSE, ["m.bulk.short"], by="ann")
halts.halt_workers(halts.Action.DRAIN, ["worker-1"], by="ann")
do("migrate", "inference", "0004", verbosity=0)
do("migrate", verbosity=0)
print([*QueueLimit.objects.values_list("queue", "max_jobs", "max_in_flight")])
print([*Tier.objects.values_list("name", "uses_reserve", "max_share")])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose name has a database."""
    with tempfile.TemporaryDirectory(prefix="migrated-") as name:
        yield Path(name)
        databases.drop_of_stack(Path(name))


def test_a_way_back_keeps_what_the_older_tables_can_hold(folder: Path) -> None:
    env = {**os.environ, "SLUICE_STATE_DIR": str(folder), **databases.of_stack(folder)}
    command = [sys.executable, "manage.py", "shell", "--verbosity=0", "-c", THERE_AND_BACK]
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    caps, tiers = done.stdout.splitlines()
    assert caps == "[('m.bulk.long', 7, None)]"
    assert tiers == "[('realtime', True, 1.0), ('standard', False, 1.0), ('bulk', False, 0.9)]"
