"""`manage.py queues` and `manage.py workers`."""

import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from inference import fleet
from inference.broker import Broker, BrokerAway
from inference.models import QueueLimit, WorkerLimit
from tests import factories

QUEUE = f"{factories.MODEL}.standard.short"


def command(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def line_of(name: str, text: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith(name)]
    return line


def publish() -> None:
    factories.publish(factories.make_job())


def test_each_queue_has_a_line_with_what_holds_it(sluice: Broker) -> None:
    publish()
    shown = command("queues")
    assert len(shown.splitlines()) == 10
    assert "no_worker: no worker serves queue" in line_of(QUEUE, shown)
    assert line_of(QUEUE, shown).split()[1:3] == ["1", "30"]


def test_the_same_as_json_with_a_wait_that_nobody_can_tell(sluice: Broker) -> None:
    publish()
    rows = {row["queue"]: row for row in json.loads(command("queues", "--json"))}
    assert (rows[QUEUE]["jobs"], rows[QUEUE]["waiting_reason"]) == (1, "no_worker")
    assert rows[QUEUE]["expected_wait_seconds"] is None


def test_a_pattern_of_queues_is_paused_and_resumed(sluice: Broker) -> None:
    assert len(command("queues", "pause", "*.bulk.*").splitlines()) == 3
    assert QueueLimit.objects.filter(is_paused=True, halted_by__startswith="command").count() == 3
    assert "paused" in line_of(f"{factories.MODEL}.bulk.long", command("queues"))
    command("queues", "resume", f"{factories.MODEL}.bulk.long")
    assert QueueLimit.objects.filter(is_paused=True).count() == 2


def test_a_queue_is_drained(sluice: Broker) -> None:
    assert command("queues", "drain", QUEUE) == f"drain {QUEUE}\n"
    assert QueueLimit.objects.get(queue=QUEUE).is_draining


def test_workers_are_shown_and_held_by_their_names(sluice: Broker) -> None:
    fleet.report(factories.make_report(name="worker-1@here", serve=("*.bulk.*",)))
    assert "ready" in line_of("worker-1@here", command("workers"))
    assert command("workers", "pause", "worker-1") == "pause worker-1@here\n"
    command("workers", "drain", "worker-*")
    row = WorkerLimit.objects.get(worker="worker-1@here")
    assert (row.is_paused, row.is_draining) == (True, True)
    command("workers", "resume", "worker-1@here")
    row.refresh_from_db()
    assert not row.is_halted


@pytest.mark.parametrize("noun", ["queue", "worker"])
def test_a_name_of_nothing_is_told_what_there_is(sluice: Broker, noun: str) -> None:
    fleet.report(factories.make_report(name="worker-1"))
    known = {"queue": QUEUE, "worker": "worker-1"}[noun]
    with pytest.raises(CommandError, match=f"no {noun} 'nope'; there are: .*{known}"):
        command(f"{noun}s", "pause", "nope")


def _away(*_: Any, **__: Any) -> None:
    raise BrokerAway("Connection refused")


def test_redis_that_is_away_is_told_and_hinders_no_pause(sluice: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "stats", _away)
    with pytest.raises(CommandError, match="Redis does not answer"):
        command("queues")
    command("queues", "pause", QUEUE)
    assert QueueLimit.objects.get(queue=QUEUE).is_paused


@pytest.mark.once
@pytest.mark.parametrize("words", [["queues"], ["queues", "pause"], ["workers"], ["workers", "drain"]])
def test_each_says_how_it_is_used(words: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "manage.py", *words, "--help"],
        capture_output=True,
        text=True,
        env=os.environ,
        cwd=settings.BASE_DIR,
        check=True,
    ).stdout
    assert ("pause|resume|drain" in shown) if len(words) == 1 else (words[0].upper()[:-1] in shown)
