"""Guards at the claim, and worker groups: three workers of eight slots on the simulated engine.

`urgent` serves realtime only, `night` bulk only, and `shared` all; bulk's share is a half. A job runs for longer
than a test looks, unless it says otherwise.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from tests.acceptance import fleet, stacks
from tests.acceptance.fleet import WorkerProcess
from tests.acceptance.stacks import Stack
from tests.waiting import until

pytestmark = pytest.mark.once

SLOTS = 8
SIM = "--decode-tps=10"
SECOND = 10
"""Tokens that take one."""
ENDLESS = 80 * SECOND
LATELY = timedelta(seconds=9.9)
"""Less than the ten seconds for which work has come lately: it came a moment after its row was written."""


@dataclass(frozen=True)
class Groups:
    """The running workers, and the jobs that a test submitted."""

    stack: Stack
    submitted: list[str]

    def submit(self, count: int, tier: str, *, tokens: int = ENDLESS, words: int = 1) -> list[str]:
        """Submit so many jobs of a tier; returns their ids."""
        content = {"messages": [{"role": "user", "content": "word " * words}], "ignore_eos": True}
        ids = fleet.submit(self.stack, count, tiers=(tier,), max_tokens=tokens, **content)
        self.submitted.extend(ids)
        return ids

    def edit(self, what: str) -> None:
        """Change rows as the admin does."""
        names = "ServedModel, Tier"
        self.stack.manage("shell", "--verbosity=0", "-c", f"from inference.models import {names}; {what}")

    def running(self, tier: str) -> int:
        """Jobs of a tier that workers hold."""
        return sum(row["leases"] for row in fleet.queues(self.stack) if row["tier"] == tier)

    def waiting(self, tier: str) -> int:
        """Jobs of a tier that nobody holds."""
        return sum(row["jobs"] for row in fleet.queues(self.stack) if row["tier"] == tier)

    def wait_until_held_at(self, tier: str, count: int) -> None:
        """Wait until so many jobs of a tier run, and others wait."""
        until(lambda: self.running(tier) == count and self.waiting(tier), what=f"{count} of {tier} run")

    def busy(self) -> dict[str, int]:
        """Slots taken, by worker."""
        return {name: row["in_flight"] for name, row in fleet.registry(self.stack).items()}

    def starts(self, ids: list[str], worker: str = "") -> list[datetime]:
        """When those of the jobs that have begun did, in order; only at one worker if it is named."""
        steps = [step for job in fleet.jobs(self.stack, ids) for step in job["history"]]
        begun = [step for step in steps if step["kind"] == "running" and step["worker"].startswith(worker)]
        return sorted(datetime.fromisoformat(step["at"]) for step in begun)

    def have_started(self, ids: list[str]) -> bool:
        return all(job["status"] != "queued" for job in fleet.jobs(self.stack, ids))

    def cancel(self, ids: list[str]) -> None:
        with self.stack.client() as client:
            for job_id in ids:
                client.post(f"/api/v1/jobs/{job_id}/cancel/")

    def clear(self) -> None:
        """Cancel what the test left, and wait until no worker holds anything."""
        self.cancel(self.submitted)
        self.submitted.clear()
        until(lambda: not any(self.busy().values()), seconds=30, what="the workers are idle")


@pytest.fixture(scope="module")
def workers() -> Iterator[Groups]:
    with stacks.running("--workers", "0") as stack, contextlib.ExitStack() as started:
        made = Groups(stack, [])
        share = "Tier.objects.filter(name='bulk').update(max_share=0.5)"
        made.edit(f"ServedModel.objects.update(max_num_seqs={SLOTS}); {share}")
        serve = {"urgent": ("--serve", "*.realtime.*"), "night": ("--serve", "*.bulk.*"), "shared": ()}
        each: list[WorkerProcess] = [
            started.enter_context(fleet.worker(stack, name, *patterns, sim=SIM))
            for name, patterns in serve.items()
        ]
        for worker in each:
            worker.wait_for("ready")
        yield made


@pytest.fixture
def groups(workers: Groups) -> Iterator[Groups]:
    yield workers
    workers.clear()


def test_realtime_starts_beside_a_bulk_backlog_in_its_group_and_in_the_reserve(groups: Groups) -> None:
    groups.submit(30, "bulk")
    until(lambda: groups.busy() == {"urgent": 0, "night": SLOTS, "shared": SLOTS - 1}, what="bulk fills the rest")

    started = groups.submit(SLOTS + 1, "realtime")

    until(lambda: groups.have_started(started), what="realtime runs")
    until(lambda: groups.busy() == dict.fromkeys(("urgent", "night", "shared"), SLOTS), what="the freest took it")
    assert groups.waiting("bulk") == 30 - 2 * SLOTS + 1


def test_bulk_keeps_to_its_share_while_online_work_came_lately_and_then_takes_all(groups: Groups) -> None:
    [online] = groups.submit(1, "standard")
    bulk = groups.submit(30, "bulk")
    until(lambda: groups.busy()["shared"] == SLOTS - 1, seconds=60, what="bulk takes all but the reserve")

    came_at = datetime.fromisoformat(fleet.job(groups.stack, online)["history"][0]["at"])
    starts, lately_ends = groups.starts(bulk, "shared"), came_at + LATELY
    assert starts[SLOTS // 2 - 1] < lately_ends <= starts[SLOTS // 2], "its share first, then the rest"


def test_a_cap_that_an_admin_changes_acts_over_all_workers_without_a_restart(groups: Groups) -> None:
    groups.submit(200, "bulk", tokens=3 * SECOND)
    until(lambda: groups.running("bulk") > SLOTS, what="both workers run bulk")
    for cap in (3, 7):
        groups.edit(f"Tier.objects.filter(name='bulk').update(max_in_flight={cap})")
        groups.wait_until_held_at("bulk", cap)
    groups.edit("Tier.objects.filter(name='bulk').update(max_in_flight=None)")


def test_a_long_prompt_starts_while_short_ones_fill_the_cache_all_the_time(groups: Groups) -> None:
    short = [
        job_id
        for tokens in range(15, 65, 2)  # of different lengths: they never leave the cache together
        for job_id in groups.submit(4, "bulk", tokens=tokens, words=850)
    ]
    until(lambda: groups.busy()["shared"] == SLOTS - 1, what="short ones fill the cache")

    [long] = groups.submit(1, "standard", tokens=SECOND, words=6_000)

    until(lambda: groups.have_started([long]), seconds=40, what="the long one runs")
    last = max(groups.starts(short))
    assert groups.waiting("bulk") or last > groups.starts([long])[0], "no short one was left to keep it out"


def two_held_back(groups: Groups, tier: str = "standard") -> list[str]:
    """Submit two jobs that later ones of another tier overtake; empty if they start: then they are cancelled."""
    early = groups.submit(2, tier)
    fleet.wait_until_finished(groups.stack, groups.submit(1, "realtime", tokens=1))
    if groups.waiting(tier) == len(early):
        return early
    groups.cancel(early)
    return []


def test_a_busy_worker_gathers_jobs_of_a_tier_and_takes_them_together(groups: Groups) -> None:
    groups.edit("Tier.objects.filter(name='standard').update(gather_jobs=3, gather_seconds=60)")
    [first] = groups.submit(1, "standard")
    until(lambda: groups.have_started([first]), what="an idle worker does not wait")

    early = until(lambda: two_held_back(groups), seconds=30, what="the worker has read the change, and gathers")

    last = groups.submit(1, "standard")

    until(lambda: groups.have_started([*early, *last]), what="all three run")
    groups.edit("Tier.objects.filter(name='standard').update(gather_jobs=0)")


def occupy(groups: Groups) -> None:
    """Give both workers that serve bulk something to do; which of them takes a job is theirs to say."""
    count = 0
    while not (groups.busy()["night"] and groups.busy()["shared"]):
        groups.submit(1, "bulk")
        count += 1
        until(lambda count=count: sum(groups.busy().values()) == count, what="it is taken")  # type: ignore[misc]


def test_jobs_that_fill_a_gather_window_start_at_all_busy_workers(groups: Groups) -> None:
    occupy(groups)
    groups.edit("Tier.objects.filter(name='bulk').update(gather_jobs=8, gather_seconds=600)")
    early = until(lambda: two_held_back(groups, "bulk"), seconds=30, what="both workers gather")

    last = groups.submit(6, "bulk")  # with those before more than either has room for

    until(lambda: groups.have_started([*early, *last]), what="all eight run")
    groups.edit("Tier.objects.filter(name='bulk').update(gather_jobs=0)")
