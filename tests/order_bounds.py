"""The bounds of `docs/scheduling.md` on what may go before a job, checked on any order over random arrivals."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, Protocol

from hypothesis import strategies as st

TIER_WEIGHTS: Final = {"realtime": 400.0, "standard": 100.0, "bulk": 1.0}
TENANT_WEIGHTS: Final = {"ann": 1.0, "bob": 1.0, "cy": 0.3, "dee": 7.0}
EPSILON: Final = 1e-6
"""Of rounding, in seconds."""


@dataclass(frozen=True)
class Arrival:
    """A job comes, so long after what was before."""

    tier: str
    tenant: str
    length: str
    estimate: float
    after_ms: int


@dataclass(frozen=True)
class Service:
    """A worker has room for so many jobs."""

    jobs: int


@dataclass(frozen=True)
class Job:
    number: int
    tier: str
    tenant: str
    length: str
    estimate: float
    arrival_ms: int

    @property
    def order_ms(self) -> float:
        return self.arrival_ms + 1000 * self.estimate


class Order(Protocol):
    """What decides: workers that serve everything, and no guard."""

    def publish(self, job: Job) -> None:
        """Queue a job."""

    def claim(self, jobs: int) -> list[int]:
        """Take so many; their numbers."""


Step = Arrival | Service


def scenarios() -> st.SearchStrategy[list[Step]]:
    """Some flood their queue, others send one job at a time; queues run empty and fill again."""
    estimates = st.sampled_from((0.1, 1.0, 10.0)) | st.floats(0.01, 60)
    arrival = st.builds(
        Arrival,
        *(st.sampled_from(sorted(TIER_WEIGHTS)), st.sampled_from(sorted(TENANT_WEIGHTS))),
        *(st.sampled_from(("short", "long")), estimates, st.sampled_from((0, 0, 10, 3_000))),
    )
    times = st.integers(1, 25)
    flood = st.builds(lambda job, n: [job] * n, arrival, times)
    trickle = st.builds(lambda job, n, service: [job, service] * n, arrival, times, st.just(Service(1)))
    service = st.integers(1, 40).map(lambda jobs: [Service(jobs)])
    phases = st.lists(flood | trickle | service | arrival.map(lambda job: [job]), min_size=3, max_size=15)
    return phases.map(lambda found: [step for phase in found for step in phase])


def check(order: Order, scenario: list[Step]) -> None:
    """Play a scenario to its end, and hold every job served against the bounds."""
    play, now_ms = Play(), 1_700_000_000_000
    for step in [*scenario, *[Service(40)] * len(scenario)]:
        if isinstance(step, Arrival):
            now_ms += step.after_ms
            job = Job(play.count, step.tier, step.tenant, step.length, step.estimate, now_ms)
            order.publish(job)
            play.arrived(job)
        else:
            for number in order.claim(step.jobs):
                play.served(number)
    assert not play.waiting, "everything is served in the end"


Name = tuple[str, ...]


@dataclass
class Play:
    """What has happened so far. A name is a tier's, or a tier's and a tenant's."""

    count: int = 0
    waiting: dict[int, Job] = field(default_factory=dict)
    passed: dict[int, list[Job]] = field(default_factory=dict)
    """Waiting job -> those of its tenant that came later and went first."""
    largest: dict[Name, float] = field(default_factory=lambda: defaultdict(float))
    since: dict[Name, dict[Name, float]] = field(default_factory=dict)
    """Who waits for a turn -> what each other has been served since it began to."""
    new: set[Name] = field(default_factory=set)
    """Tenants that wait for their first turn ever."""
    known: set[Name] = field(default_factory=set)

    def arrived(self, job: Job) -> None:
        self.count += 1
        for name in names(job):
            self.largest[name] = max(self.largest[name], job.estimate)
            self.since.setdefault(name, defaultdict(float))
            if name not in self.known:
                self.new.add(name)
            self.known.add(name)
        self.waiting[job.number], self.passed[job.number] = job, []

    def served(self, number: int) -> None:
        job = self.waiting.pop(number)
        self.check_within_tenant(job, self.passed.pop(number))
        for other in self.waiting.values():
            if names(other) == names(job) and job.number > other.number:
                self.passed[other.number].append(job)
        self.check_between_tenants((job.tier, job.tenant))
        self.check_between_tiers((job.tier,))
        self.count_service(job)

    def check_within_tenant(self, job: Job, passed: list[Job]) -> None:
        """Only those go first that came at most their difference of estimates later."""
        assert all(other.order_ms <= job.order_ms for other in passed)

    def check_between_tenants(self, name: Name) -> None:
        weight, largest = TENANT_WEIGHTS[name[1]], self.largest[name]
        rivals = {n: s for n, s in self.since[name].items() if n[0] == name[0]}
        owed = max(self.largest[n] / TENANT_WEIGHTS[n[1]] for n in self.known if len(n) == 2 and n[0] == name[0])
        for rival, service in rivals.items():
            bound = largest / weight + (0 if name in self.new else owed)
            assert service <= TENANT_WEIGHTS[rival[1]] * bound + EPSILON

    def check_between_tiers(self, name: Name) -> None:
        own = self.largest[name] / TIER_WEIGHTS[name[0]]
        for rival, service in self.since[name].items():
            assert service <= TIER_WEIGHTS[rival[0]] * own + self.largest[rival] + EPSILON

    def count_service(self, job: Job) -> None:
        for name in names(job):
            for other, services in self.since.items():
                if other != name and len(other) == len(name):
                    services[name] += job.estimate
            self.new.discard(name)
            still_waits = any(name in names(other) for other in self.waiting.values())
            self.since.pop(name)
            if still_waits:
                self.since[name] = defaultdict(float)


def names(job: Job) -> tuple[Name, Name]:
    return (job.tier,), (job.tier, job.tenant)
