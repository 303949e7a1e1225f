"""Run the demo; exits non-zero if any job failed."""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console
from rich.live import Live

from examples.demo import backlog, client, prompts, report, stack
from examples.demo.backlog import Backlog
from examples.demo.client import Call
from examples.demo.stack import Access, StackFailed

STATE_DIR: Final = stack.ROOT / ".sluice" / "demo"
SPACING_SECONDS: Final = 0.02
"""Between two prompts, so that they arrive in the file's order, mixed over tiers."""
NARROW: Final = 130
"""Columns that the tables need; a narrower pipe (not terminal) is taken to be this wide."""


def main() -> int:
    """Start the stack, send everything, show what happened, stop the stack."""
    options = _options()
    os.umask(0o077)  # the log has logins in it, the database prompts: their owner's only
    console = Console() if sys.stdout.isatty() else Console(width=NARROW)
    console.print(f"Starting the stack ({options.engine}); its log is {options.state / 'up.log'}")
    try:
        with stack.running(options.state, engine=options.engine, console=console) as access:
            failed = asyncio.run(_demonstrate(access, console))
    except StackFailed as error:
        console.print(f"The stack did not come up:\n{error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    console.print("All jobs were answered." if not failed else f"{failed} jobs FAILED.", style="bold")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=main.__doc__)
    parser.add_argument("--engine", choices=["vllm", "sim"], default="vllm", help="default: %(default)s")
    parser.add_argument("--state", type=Path, default=STATE_DIR, help="the stack's folder (%(default)s)")
    return parser.parse_args()


async def _demonstrate(access: Access, console: Console) -> int:
    """Send all prompts at once; return how many failed."""
    calls = [Call(prompt) for prompt in prompts.read()]
    seen = Backlog()
    headers = {"Authorization": f"Bearer {access.api_key}"}
    limits = httpx.Limits(max_connections=len(calls))
    timeout = httpx.Timeout(600.0)
    async with httpx.AsyncClient(
        base_url=access.base_url, headers=headers, limits=limits, timeout=timeout, trust_env=False
    ) as http:
        console.print(f"\nSending {len(calls)} prompts at once, over all tiers")
        started_at = time.monotonic()
        await _send_all(http, calls, access, seen, console)
        console.print(f"All answers were there after {time.monotonic() - started_at:.1f} s\n")
        jobs = await _records(http, calls)
    report.show(console, calls, jobs, seen)
    return sum(bool(call.error) for call in calls)


async def _send_all(
    http: httpx.AsyncClient, calls: list[Call], access: Access, seen: Backlog, console: Console
) -> None:
    watcher = asyncio.create_task(backlog.watch(access, seen))
    with Live(
        console=console, get_renderable=lambda: report.progress(calls, seen), refresh_per_second=4, transient=True
    ):
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_one(http, call, console))
                await asyncio.sleep(SPACING_SECONDS)
    watcher.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watcher


async def _one(http: httpx.AsyncClient, call: Call, console: Console) -> None:
    await client.send(http, call)
    console.print(report.finished(call))


async def _records(http: httpx.AsyncClient, calls: list[Call]) -> dict[str, dict[str, Any]]:
    return {call.job_id: await client.job(http, call.job_id) for call in calls if call.job_id}


if __name__ == "__main__":
    sys.exit(main())
