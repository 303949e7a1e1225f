"""What the demo leaves behind, and what it can live with."""

import asyncio
import functools
import io
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from examples.demo import __main__ as demo
from examples.demo import backlog, few_slots, report, stack
from examples.demo.backlog import Backlog
from examples.demo.client import Call
from examples.demo.prompts import Prompt
from examples.demo.stack import Access, StackFailed
from inference.models import ServedModel, Tier

ACCESS = Access("http://web", "sk-key", "http://flower", "flower", "password")
QUEUE = {"queue": "m.bulk.short", "jobs": 3, "backlog_seconds": 1.5}


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_what_it_writes_is_its_owners_only(umask: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(state_dir: Path) -> None:
        (state_dir / "database").touch()
        raise StackFailed("enough")

    monkeypatch.setattr(stack, "_prepare", fail)
    monkeypatch.setattr(sys, "argv", ["demo", "--state", str(tmp_path / "new" / "demo")])
    assert demo.main() == 1
    written = list((tmp_path / "new").rglob("*"))
    assert len(written) == 2
    assert not [path for path in written if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]


def test_the_ready_file_of_a_stack_that_was_killed_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {name: getattr(ACCESS, name) for name in Access.__slots__}
    (tmp_path / "ready.json").write_text(json.dumps(facts))
    monkeypatch.setattr(stack, "_prepare", lambda *_: None)
    monkeypatch.setattr(stack, "_command", lambda *_: [sys.executable, "-c", "raise SystemExit('no start')"])
    with pytest.raises(StackFailed, match="no start"), stack.running(tmp_path, engine="sim", console=Console()):
        pass


async def test_a_flower_that_does_not_answer_for_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[httpx.Request] = []
    went_on = asyncio.Event()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) == 1:
            raise httpx.ReadTimeout("busy")
        if len(asked) == 4:
            went_on.set()
        return httpx.Response(500 if len(asked) == 2 else 200, json={"queues": [QUEUE]})

    client = functools.partial(httpx.AsyncClient, transport=httpx.MockTransport(answer))
    monkeypatch.setattr(httpx, "AsyncClient", client)
    monkeypatch.setattr(backlog, "POLL_SECONDS", 0)
    seen = Backlog()
    watching = asyncio.create_task(backlog.watch(ACCESS, seen))
    await asyncio.wait([watching, asyncio.ensure_future(went_on.wait())], return_when=asyncio.FIRST_COMPLETED)
    watching.cancel()
    await asyncio.wait([watching])
    assert watching.cancelled()
    assert backlog.waiting(seen.peak) == 3


def test_in_its_database_slots_are_few_and_no_tier_is_in_a_hurry(db: None) -> None:
    few_slots.adjust()
    assert ServedModel.objects.get(is_default=True).max_num_seqs == few_slots.SLOTS
    for tier in Tier.objects.all():
        assert tier.start_deadline_seconds >= few_slots.START_DEADLINE_SECONDS
        assert tier.sync_start_deadline_seconds >= few_slots.START_DEADLINE_SECONDS
    assert Tier.objects.get(name="bulk").start_deadline_seconds == 86400


@pytest.mark.parametrize("width", [90, demo.NARROW])
def test_a_long_error_leaves_tier_class_and_times_their_room(width: int) -> None:
    prompt = Prompt(name="realtime-chat-01", path="/v1/chat/completions", body={})
    call = Call(prompt, job_id="id", error="the job did not start in time\n" * 20, total_seconds=31.25)
    job = {"tier": "realtime", "length": "medium", "queue": "m.realtime.medium", "queue_time_seconds": 30.5}
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(report._jobs_table([call], {"id": job}))
    shown = console.export_text()
    assert [
        word for word in ("realtime-chat-01", "medium", "30.50", "31.25", "first token") if word not in shown
    ] == []


def test_an_answer_takes_one_line_of_the_table() -> None:
    answered = Call(Prompt(name="haiku", path="", body={}), job_id="id", text="word " * 50)
    console = Console(width=90, record=True, file=io.StringIO())
    console.print(report._jobs_table([answered], {}))
    assert sum("word" in line for line in console.export_text().splitlines()) == 1
