"""B13: whether any limit lets one too many in when 1,000 ask at once, at several web processes."""

import dataclasses
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench import posts, stack, web
from bench.posts import Spec
from bench.row import Measured, Row, Say
from bench.stack import MODEL
from bench.web import Web

PROCESSES: Final = 3
MORE: Final = 10
"""Jobs by which a limit is raised afterwards."""
PROMPT_TOKENS: Final = 64
OUTPUT_TOKENS: Final = 64
UNREACHED: Final = 1_000_000_000
WINDOW_SECONDS: Final = 60.0
"""Of the limits a minute: a case that takes longer shows nothing."""
TIER: Final = "bulk"
QUEUE: Final = f"{MODEL}.{TIER}.short"
_BODY: Final = {"tier": TIER, "body": stack.body(prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS)}


@dataclass(frozen=True, slots=True)
class Size:
    """What one job counts as."""

    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit, by the row and field that an admin edits."""

    table: str
    name: str
    unit: str = "jobs"
    """Or one of `Size`."""

    def value(self, jobs: int, size: Size) -> int:
        """Return the limit that so many jobs keep, and half a job more where it counts something smaller."""
        each = 1 if self.unit == "jobs" else int(getattr(size, self.unit))
        return jobs * each + each // 2

    @property
    def none(self) -> int | None:
        """What stands for no limit."""
        return UNREACHED if (self.table, self.name) == ("Tier", "max_queued_jobs") else None

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"


LIMITS: Final = (
    Limit("ApiKey", "requests_per_minute"),
    Limit("ApiKey", "tokens_per_minute", "tokens"),
    Limit("Tenant", "requests_per_minute"),
    Limit("Tenant", "tokens_per_minute", "tokens"),
    Limit("Tenant", "max_queued_jobs"),
    Limit("Tenant", "max_unfinished_jobs"),
    Limit("Tier", "max_queued_jobs"),
    Limit("Tier", "max_queued_tokens", "tokens"),
    Limit("Tier", "max_queued_bytes", "bytes"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """Limits that hold together, each as the jobs that keep it."""

    jobs: Mapping[Limit, int]

    @property
    def most(self) -> int:
        """Jobs that keep all of them."""
        return min(self.jobs.values())

    def __str__(self) -> str:
        return " + ".join(f"{limit}={jobs}" for limit, jobs in self.jobs.items())


@dataclass(frozen=True, slots=True)
class Found:
    """What went wrong, in jobs unless it is said; all 0 if nothing did."""

    over: int
    """Taken above a limit."""
    under: int
    """Refused below it: somebody who was refused had used something up."""
    off_after: int
    """Taken above or below what a limit was raised by afterwards."""
    drift: int
    """By which counters of jobs, tokens and bytes differ from the rows."""
    left: int
    """What the counters still show when all jobs are cancelled."""
    odd: int
    """Answers that are neither 201 nor 429."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking at once."""

    taken: int
    odd: int
    drift: int


def measure(say: Say, asking: int) -> Measured:
    """Set each limit alone, then several together, and ask for more than fits."""
    with web.ours(PROCESSES) as ours:
        ours.update("Tier", {"name": TIER}, on_full="reject")  # what spills is over no limit of its queue
        size = _size(ours)
        found = []
        for number, case in enumerate(_cases(asking // 3)):
            found.append(_try(ours, case, f"tenant-{number}", size, asking))
            ours.forget()  # else room is kept in the next case for those who were refused in this one
            say(f"{case}: {found[-1]}")
    return Measured(_figures(found), _notes(asking, len(found)))


def _cases(jobs: int) -> list[Case]:
    alone = [Case({limit: jobs}) for limit in LIMITS]
    places = range(len(LIMITS))
    together = [Case({LIMITS[i]: jobs + 7 * ((i + turn) % len(LIMITS)) for i in places}) for turn in (0, 3, 6)]
    return [*alone, *together]


def _try(ours: Web, case: Case, tenant: str, size: Size, asking: int) -> Found:
    """Ask at once; raise the limits and ask again; then cancel all. Raises RuntimeError."""
    key, began = ours.key(tenant), time.monotonic()
    _set(ours, tenant, {limit: limit.value(jobs, size) for limit, jobs in case.jobs.items()})
    first = _ask(ours, key, asking)
    _set(ours, tenant, {limit: limit.value(jobs + MORE, size) for limit, jobs in case.jobs.items()})
    second = _ask(ours, key, 5 * MORE)
    if (seconds := time.monotonic() - began) > WINDOW_SECONDS:
        raise RuntimeError(f"{case}: took {seconds:.0f} s, longer than the limits' window")
    ours.rows("cancel")
    _set(ours, tenant, {limit: limit.none for limit in case.jobs})
    return Found(
        over=max(0, first.taken - case.most),
        under=max(0, case.most - first.taken),
        off_after=abs(second.taken - MORE),
        drift=first.drift + second.drift,
        left=sum(counted for counted, _ in ours.rows("counters").values()),
        odd=first.odd + second.odd,
    )


def _set(ours: Web, tenant: str, values: Mapping[Limit, int | None]) -> None:
    """Set the limits' fields, of this tenant or of the tier, and wait until they hold everywhere."""
    rows = {"ApiKey": {"tenant": tenant}, "Tenant": {"name": tenant}, "Tier": {"name": TIER}}
    for table, where in rows.items():
        fields = {limit.name: value for limit, value in values.items() if limit.table == table}
        if fields:
            ours.update(table, where, **fields)
    time.sleep(stack.LIMITS_SECONDS)


def _ask(ours: Web, key: str, requests: int) -> Asked:
    """Ask all at once, of all processes in turn, and compare the counters with the rows."""
    posted = posts.run(
        Spec(targets=ours.targets(key), path="/api/v1/jobs/", bodies=[_BODY], requests=requests, at_once=requests)
    )
    statuses = Counter(answer.status for answer in posted.answers)
    drift = sum(abs(counted - there) for counted, there in ours.rows("counters").values())
    return Asked(statuses[201], requests - statuses[201] - statuses[429], drift)


def _size(ours: Web) -> Size:
    """Ask for one job and see what it counts as."""
    _set(ours, "sizes", {limit: limit.none for limit in LIMITS})
    _ask(ours, ours.key("sizes"), 1)
    counters = ours.rows("counters")
    ours.rows("cancel")
    return Size(**{unit: counters[f"{QUEUE} {unit}"][1] for unit in ("tokens", "bytes")})


def _figures(found: Sequence[Found]) -> dict[str, float]:
    names = [field.name for field in dataclasses.fields(Found)]
    return {name: float(sum(getattr(each, name) for each in found)) for name in names}


def _notes(asking: int, cases: int) -> tuple[str, ...]:
    return (
        f"{asking:,} submissions at once to {PROCESSES} web processes, a third of which fit, in {cases} cases:",
        f"each limit alone, then all in {cases - len(LIMITS)} ways of which one binds first; sums over all cases.",
        f"over, under: jobs taken above, below the limit. off_after: the same once it was raised by {MORE} and",
        f"{5 * MORE} asked again. drift: counters against rows. left: counters when all jobs are cancelled.",
        "Valkey is emptied after each case: for those who were refused it keeps room, and they do not come back.",
        f"Limits: {', '.join(map(str, LIMITS))}.",
    )


ROW: Final = Row(
    id="B13",
    text="jobs that a limit lets in too many with 1,000 concurrent submissions, and what is not given back",
    goals=("over <= 0", "under <= 0", "off_after <= 0", "drift <= 0", "left <= 0", "odd <= 0"),
    measure=lambda say: measure(say, 1_000),
    rehearse=lambda say: measure(say, 90),
)
