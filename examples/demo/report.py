"""What the demo shows: progress while it runs, tables at the end."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples.demo import backlog
from examples.demo.backlog import Backlog
from examples.demo.client import Call

ANSWER_CHARACTERS: Final = 42
PEAK_COLUMNS: Final = ["jobs", "tokens", "backlog seconds", "later at most", "leases"]


def progress(calls: Iterable[Call], seen: Backlog) -> Table:
    """One row a service tier, with the backlog of the moment below."""
    table = Table(box=None, pad_edge=False, caption=f"waiting, says Flower: {backlog.waiting(seen.now)}")
    for heading in ("service_tier", "sent", "waiting", "answering", "done", "failed"):
        table.add_column(heading, justify="left" if heading == "service_tier" else "right")
    by_tier: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_tier[call.prompt.service_tier].append(call)
    for tier, mine in by_tier.items():
        table.add_row(tier, str(len(mine)), *(str(n) for n in _counts(mine)))
    return table


def _counts(calls: list[Call]) -> tuple[int, int, int, int]:
    failed = sum(bool(call.error) for call in calls)
    done = sum(call.is_over for call in calls) - failed
    answering = sum(call.first_token_seconds is not None and not call.is_over for call in calls)
    return len(calls) - failed - done - answering, answering, done, failed


def finished(call: Call) -> Text:
    """One line for one answer."""
    what = Text(_one_line(call.error), style="red") if call.error else Text(_start(call), style="green")
    return Text(f"{call.total_seconds or 0:6.1f} s  {call.prompt.name:<24} ") + what


def show(console: Console, calls: list[Call], jobs: Mapping[str, dict[str, Any]], seen: Backlog) -> None:
    """Print the tables."""
    console.print(_jobs_table(calls, jobs))
    console.print(_queues_table(jobs))
    console.print(_peak_table(seen))


def _jobs_table(calls: list[Call], jobs: Mapping[str, dict[str, Any]]) -> Table:
    table = _table("Jobs (seconds)", ["job", "tier", "class", "in", "out"], [])
    for heading in ("queued", "first token", "total"):
        table.add_column(heading, justify="right", no_wrap=True)
    # The only column that gives way, so that a long error or a narrow terminal costs no other its room.
    table.add_column("start of the answer", max_width=ANSWER_CHARACTERS)
    for call in calls:
        job = jobs.get(call.job_id, {})
        numbers = [_seconds(job.get("queue_time_seconds")), _seconds(call.first_token_seconds)]
        table.add_row(
            *(call.prompt.name, job.get("tier", ""), job.get("length", "")),
            *(str(job.get(name, "")) for name in ("prompt_tokens", "output_tokens")),
            *(*numbers, _seconds(call.total_seconds)),
            _last_column(call),
        )
    return table


def _last_column(call: Call) -> Text:
    """Show an error whole, over several lines if need be, and of an answer what fits on one."""
    if call.error:
        return Text(_one_line(call.error), style="red")
    return Text(_start(call), no_wrap=True, overflow="ellipsis")


def _queues_table(jobs: Mapping[str, dict[str, Any]]) -> Table:
    table = _table(
        "Queues (seconds)", ["queue"], ["jobs", "tokens in", "tokens out", "mean queued", "longest queued"]
    )
    by_queue: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for job in jobs.values():
        by_queue[job["queue"]].append(job)
    for queue, mine in sorted(by_queue.items()):
        table.add_row(queue, str(len(mine)), *_sums(mine))
    return table


def _sums(jobs: list[dict[str, Any]]) -> list[str]:
    waits = [job["queue_time_seconds"] or 0.0 for job in jobs]
    tokens = [sum(job[name] or 0 for job in jobs) for name in ("prompt_tokens", "output_tokens")]
    return [*map(str, tokens), _seconds(sum(waits) / len(waits)), _seconds(max(waits))]


def _peak_table(seen: Backlog) -> Table:
    table = _table("Backlog at its peak, as Flower saw it", ["queue"], PEAK_COLUMNS)
    for queue in seen.peak:
        if queue["jobs"] or queue["leases"]:
            seconds = [queue["backlog_seconds"], seen.longest_seconds[queue["queue"]]]
            numbers = [queue["jobs"], queue["tokens"], *(f"{value:.1f}" for value in seconds), queue["leases"]]
            table.add_row(queue["queue"], *map(str, numbers))
    table.add_section()
    table.add_row("all", str(backlog.waiting(seen.peak)), str(sum(queue["tokens"] for queue in seen.peak)))
    return table


def _table(title: str, texts: list[str], numbers: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for heading in texts:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _start(call: Call) -> str:
    return _one_line(call.text)[:ANSWER_CHARACTERS]


def _one_line(text: str) -> str:
    return " ".join(text.split())
