"""Valkey dies, forgets everything, or hangs up on everyone, with jobs queued and running, streamed and plain."""

import os
import shutil
import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis

from tests.acceptance import fleet
from tests.acceptance.audit import audit, kinds
from tests.acceptance.followers import Chat, Follower
from tests.acceptance.stacks import Stack
from tests.waiting import until

PLAIN, STREAMED = 72, 6
MANY = 16
"""Jobs in an engine of 32 slots: on a busy machine the first ends before the last begins."""
RESTART_SECONDS = 40.0


def restart(stack: Stack) -> None:
    """Kill Valkey; it comes back with what it had written."""
    old = stack.pid("valkey")
    os.kill(old, signal.SIGKILL)
    until(lambda: stack.pid("valkey") != old, seconds=RESTART_SECONDS, what="Valkey has a new process")
    until(lambda: fleet.is_whole(stack), seconds=RESTART_SECONDS, what="all parts are back")


def wipe(stack: Stack) -> None:
    """Kill Valkey and take its data; it comes back empty."""
    os.kill(stack.pid("valkey"), signal.SIGSTOP)
    shutil.rmtree(stack.folder / "state" / "valkey" / "appendonlydir")
    restart(stack)


def flush(stack: Stack) -> None:
    """Have Valkey forget everything, on open connections."""
    with redis.Redis.from_url(stack.access["redis_url"]) as client:
        client.flushall()


def hang_up(stack: Stack) -> None:
    """Close every connection that Valkey has, in whatever state it is."""
    with redis.Redis.from_url(stack.access["redis_url"]) as client:
        for kind in ("pubsub", "normal"):
            client.client_kill_filter(_type=kind, skipme=True)


Load = tuple[list[str], list[Follower], list[Chat]]


def is_loaded(stack: Stack) -> bool:
    """Whether both engines have much to do, and other jobs wait."""
    running = [fleet.engine_gauge(stack, name, "vllm:num_requests_running") for name in ("worker-1", "worker-2")]
    return min(running) >= MANY and fleet.waiting(stack) > 0


def load(stack: Stack) -> Load:
    """Have clients call, give the engines more than they hold, and have clients follow some of the jobs."""
    chats = [Chat(stack, max_tokens=2 * fleet.LASTING) for _ in range(2)]
    for chat in chats:
        chat.start()
    until(lambda: all(chat.chunks for chat in chats), seconds=40, what="the calls stream")
    streamed = fleet.submit(
        stack, STREAMED, tiers=("realtime",), max_tokens=fleet.LASTING, stream=True, ignore_eos=True
    )
    plain = fleet.submit(stack, PLAIN, tiers=("standard", "bulk"), max_tokens=fleet.LASTING, ignore_eos=True)
    followers = [Follower(stack, job_id) for job_id in [*streamed, *plain[:2], *plain[-2:]]]
    for follower in followers:
        follower.start()
    until(lambda: is_loaded(stack), seconds=40, what="both engines have much to do")
    return [*streamed, *plain, *(chat.job_id for chat in chats)], followers, chats


def break_under_load(stack: Stack, fault: Callable[[Stack], None]) -> tuple[list[dict[str, Any]], list[Chat]]:
    """Load the stack, break it, and check what every client was told; returns the jobs and the calls."""
    ids, followers, chats = load(stack)
    fault(stack)
    jobs = audit(stack, ids)
    by_id = {job["id"]: job for job in jobs}
    for follower in followers:
        follower.check(by_id[follower.job_id])
    for chat in chats:
        chat.check(by_id[chat.job_id])
    assert {job["status"] for job in jobs} == {"succeeded"}
    return jobs, chats


@pytest.mark.parametrize("fault", [restart, hang_up])
def test_a_valkey_that_comes_back_with_its_data_costs_nobody_anything(
    broken: Stack, fault: Callable[[Stack], None]
) -> None:
    jobs, chats = break_under_load(broken, fault)

    assert {tuple(kinds(job)) for job in jobs} == {("queued", "running", "succeeded")}
    assert all(chat.is_complete for chat in chats)


@pytest.mark.parametrize("fault", [wipe, flush])
def test_a_valkey_that_forgot_everything_loses_no_job(broken: Stack, fault: Callable[[Stack], None]) -> None:
    jobs, _ = break_under_load(broken, fault)

    plain = [job for job in jobs if not job["streamed"]]
    assert {tuple(kinds(job)) for job in plain} == {("queued", "running", "succeeded")}
