"""Web dies in mid-stream, the database goes away for seconds, and maintenance runs twice."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import psycopg
from django.conf import settings

from tests.acceptance import fleet
from tests.acceptance.audit import audit, kinds
from tests.acceptance.followers import Chat, Follower
from tests.acceptance.stacks import Stack
from tests.waiting import until

RESTART_SECONDS = 40.0
LOCK_SECONDS = 4.0
"""Two leases."""
CONTROL: Final = ("worker", "-P", "threads", "-c", "2", "-Q", "control", "-n", "control-2@%h")
BEAT: Final = ("beat", "--pidfile=", "--schedule")
HANG_UP: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def test_a_web_process_killed_in_mid_stream_takes_no_job_along(broken: Stack) -> None:
    chat = Chat(broken, max_tokens=fleet.LASTING)
    [streamed] = fleet.submit(broken, 1, max_tokens=fleet.LASTING, stream=True, ignore_eos=True)
    follower = Follower(broken, streamed)
    for client in (chat, follower):
        client.start()
    until(lambda: chat.chunks and follower.messages, seconds=40, what="both stream")
    old = broken.pid("web")
    os.kill(old, signal.SIGKILL)
    until(lambda: chat.is_cut, what="the call breaks off")
    until(lambda: broken.pid("web") != old, seconds=RESTART_SECONDS, what="web has a new process")
    until(lambda: fleet.is_whole(broken), seconds=RESTART_SECONDS, what="it answers")
    late = Follower(broken, chat.job_id)
    late.start()

    jobs = {job["id"]: job for job in audit(broken, [chat.job_id, streamed])}
    for reader in (chat, follower, late):
        reader.check(jobs[reader.job_id])
    assert {tuple(kinds(job)) for job in jobs.values()} == {("queued", "running", "succeeded")}
    assert follower.connections >= 2
    for reader in (follower, late):
        job = jobs[reader.job_id]
        assert reader.said(job["history"][-1]["claim_id"]) == job["result"]["choices"][0]["message"]["content"]


def database_url(stack: Stack) -> str:
    return stack.environment().get("DATABASE_URL", "")


def break_database(stack: Stack) -> None:
    """Keep SQLite's writers out for seconds; have PostgreSQL hang up on everyone, again and again for as long."""
    ends_at = time.monotonic() + LOCK_SECONDS

    def is_over() -> bool:
        return time.monotonic() > ends_at

    if not database_url(stack).startswith("postgres"):
        with contextlib.closing(
            sqlite3.connect(stack.folder / "state" / "sluice.sqlite3", timeout=20)
        ) as database:
            database.execute("BEGIN EXCLUSIVE")
            until(is_over, what="SQLite was locked for so long")
            database.rollback()
        return
    with psycopg.connect(database_url(stack), autocommit=True) as connection:
        until(lambda: connection.execute(HANG_UP) and is_over(), what="PostgreSQL hung up for so long")


def test_a_database_that_goes_away_while_jobs_start_and_finish_loses_none(broken: Stack) -> None:
    ids = fleet.submit(broken, 90, tiers=("standard", "bulk"), max_tokens=30, ignore_eos=True)
    streamed = fleet.submit(broken, 4, max_tokens=30, stream=True, ignore_eos=True)
    until(lambda: fleet.count(broken, "running") > 0, seconds=40, what="jobs run")
    break_database(broken)

    jobs = audit(broken, [*ids, *streamed])
    assert {(job["status"], job["attempts"]) for job in jobs} == {("succeeded", 1)}
    assert {tuple(kinds(job)) for job in jobs} == {("queued", "running", "succeeded")}


@contextlib.contextmanager
def celery(stack: Stack, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """One more Celery process of the stack."""
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "project", *arguments]
    with (stack.folder / f"second-{arguments[0]}.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=stack.environment(), stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def test_two_beats_and_two_control_workers_do_everything_once(broken: Stack) -> None:
    schedule = str(broken.folder / "second-schedule")
    with celery(broken, *CONTROL) as control, celery(broken, *BEAT, schedule) as beat:
        ids = fleet.submit(broken, 40, tiers=("standard", "bulk"), max_tokens=fleet.LASTING, ignore_eos=True)
        fleet.wait_until_started(broken)
        os.kill(broken.pid("worker-1"), signal.SIGKILL)
        jobs = audit(broken, ids)
        assert control.poll() is None
        assert beat.poll() is None

    assert {job["status"] for job in jobs} == {"succeeded"}
    rescued = [job for job in jobs if "rescued" in kinds(job)]
    assert rescued
    assert {kinds(job).count("rescued") for job in rescued} == {1}
    assert {job["attempts"] for job in rescued} == {2}
