"""Whether a job started in time is counted once, in whatever way it starts or goes."""

import secrets
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference import broker as broker_module
from inference import objectives
from inference.broker import Broker, Claimed, ClaimRequest, Credit, TierTerms
from inference.objectives import WINDOWS, Ring, Starts
from tests.integration import scripts_by_clock
from tests.integration.broker_jobs import PLENTY, make_entry
from tests.integration.scripts_by_clock import START_MS, set_clock

scripts_on_a_clock_of_the_tests = scripts_by_clock.scripts_on_a_clock_of_the_tests

QUEUES: Final = ("m.online.short", "m.bulk.short")
TARGET_MS: Final = {"m.online.short": 500, "m.bulk.short": None}
TERMS: Final = {"online": TierTerms(100.0, target_seconds=0.5), "bulk": TierTerms(1.0)}
PARKS: Final = Credit(4, 10**9, may_park=True)


@dataclass(frozen=True)
class Step:
    verb: str
    number: int
    value: int


VERBS: Final = (*["publish"] * 3, *["claim"] * 2, "retry", "ack", "drop", "release", "cancel", "expire", "wait")
STEPS: Final = st.builds(Step, st.sampled_from(VERBS), st.integers(0, 3), st.integers(0, 3))
WAITS_MS: Final = (100, 61_000, 1_000_000, 40_000_000)


class Counted:
    """What is to be counted: plain buckets that nothing overwrites."""

    def __init__(self) -> None:
        self.buckets: dict[tuple[str, Ring, int], list[int]] = {}

    def add(self, queue: str, in_time: int, missed: int, now_ms: int) -> None:
        for ring in (objectives.MINUTES, objectives.QUARTERS):
            bucket = self.buckets.setdefault((queue, ring, now_ms // 1000 // ring.width_seconds), [0, 0])
            bucket[0], bucket[1] = max(0, bucket[0] + in_time), bucket[1] + missed

    def of(self, queue: str, now_ms: int) -> tuple[Starts, ...]:
        return tuple(self._within(queue, window, now_ms) for window in WINDOWS)

    def _within(self, queue: str, window: objectives.Window, now_ms: int) -> Starts:
        width = window.ring.width_seconds
        first = now_ms // 1000 // width - window.seconds // width
        live = [
            b
            for (name, ring, at), b in self.buckets.items()
            if (name, ring) == (queue, window.ring) and at >= first
        ]
        return Starts(sum(b[0] for b in live), sum(b[1] for b in live))


class Both:
    """The broker and the plain count side by side."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.counted, self.now_ms = broker, Counted(), START_MS
        self.client: Any = broker.client
        self.arrived: dict[UUID, tuple[str, int]] = {}
        self.held: dict[UUID, Claimed] = {}
        self.judged: dict[UUID, str] = {}

    def apply(self, step: Step) -> None:
        set_clock(self.broker, self.now_ms)
        getattr(self, step.verb)(UUID(int=step.number), step.value)
        for queue in QUEUES:
            kept = self.client.get(f"{self.broker.prefix}starts:{queue}")
            assert objectives.read(kept, self.now_ms / 1000) == self.counted.of(queue, self.now_ms)

    def publish(self, job_id: UUID, value: int, *, counts: bool = True) -> None:
        queue, arrival = QUEUES[value % 2], self.now_ms - 400 * (value // 2)
        entry = make_entry(job_id=job_id, queue=queue, arrival_ms=arrival, counts=counts)
        if self.broker.publish([entry]) == [True]:
            self.arrived[job_id] = queue, arrival
            self.judged |= {} if counts else {job_id: "-"}

    def retry(self, job_id: UUID, value: int) -> None:
        self.publish(job_id, value, counts=False)

    def claim(self, _: UUID, value: int) -> None:
        request = ClaimRequest(QUEUES, PLENTY, limit=value, worker="w", lease_seconds=60, tiers=TERMS)
        for claimed in self.broker.claim(request).jobs:
            self.held[claimed.token.job_id] = claimed
            self.start(claimed.token.job_id)

    def start(self, job_id: UUID) -> None:
        queue, arrival = self.arrived[job_id]
        target = TARGET_MS[queue]
        if job_id not in self.judged:
            is_good = target is None or self.now_ms - arrival <= target
            self.judged[job_id] = "good" if is_good else "late"
            self.counted.add(queue, int(is_good), int(not is_good), self.now_ms)

    def ack(self, job_id: UUID, _: int, status: str = "succeeded") -> None:
        if claimed := self.held.pop(job_id, None):
            assert self.broker.ack(claimed.token, status=status)
            if status == "expired" and self.judged[job_id] == "good":
                self.counted.add(claimed.queue, -1, 1, self.now_ms)
            self.judged.pop(job_id)

    def drop(self, job_id: UUID, _: int) -> None:
        self.ack(job_id, 0, "expired")

    def release(self, job_id: UUID, _: int) -> None:
        if claimed := self.held.pop(job_id, None):
            assert self.broker.release(claimed.token)

    def cancel(self, job_id: UUID, value: int) -> None:
        """By a client that goes; of a job that never started it is a miss once its time is over."""
        if job_id in self.held:
            return
        target = None if value == 0 else 0.5
        if self.broker.cancel(job_id, target_seconds=target) == "queued":
            self.go(job_id, target)

    def expire(self, job_id: UUID, _: int) -> None:
        if job_id not in self.held and self.broker.cancel(job_id, status="expired", target_seconds=0) == "queued":
            self.go(job_id, 0)

    def go(self, job_id: UUID, target: float | None) -> None:
        queue, arrival = self.arrived.pop(job_id)
        is_miss = target is not None and self.now_ms - arrival > target * 1000
        if self.judged.pop(job_id, None) is None and is_miss:
            self.counted.add(queue, 0, 1, self.now_ms)

    def wait(self, _: UUID, value: int) -> None:
        self.now_ms += WAITS_MS[value]


@settings(max_examples=60)
@given(history=st.lists(STEPS, min_size=10, max_size=80))
def test_each_job_counts_once_on_any_history(valkey: str, history: list[Step]) -> None:
    compare(valkey, history)


STARTED_AND_GIVEN_UP: Final = "publish 1 0, claim 0 1, release 1 0, wait 0 1, cancel 1 1"
RETRIED_AND_EXPIRED: Final = "retry 1 0, wait 0 1, expire 1 0"


@pytest.mark.parametrize("history", [STARTED_AND_GIVEN_UP, RETRIED_AND_EXPIRED])
def test_they_do_so_where_random_histories_seldom_lead(valkey: str, history: str) -> None:
    steps = (step.split() for step in history.split(", "))
    compare(valkey, [Step(verb, int(number), int(value)) for verb, number, value in steps])


def compare(valkey: str, history: list[Step]) -> None:
    client = broker_module.connect(valkey)
    both = Both(Broker(client, prefix=f"{{starts-{secrets.token_hex(6)}}}:"))
    for step in history:
        both.apply(step)
    client.close()


def starts(broker: Broker, now_ms: int) -> Starts:
    kept: Any = broker.client.get(f"{broker.prefix}starts:{QUEUES[0]}")
    return objectives.read(kept, now_ms / 1000)[0]


def park(broker: Broker) -> Claimed:
    """Claim a job that does not fit, at its time to be parked."""
    set_clock(broker, START_MS)
    broker.publish([make_entry(queue=QUEUES[0], prompt_tokens=5000)])
    small = ClaimRequest(
        QUEUES[:1], Credit(4, 100, may_park=True), limit=1, worker="w", lease_seconds=60, tiers=TERMS
    )
    assert broker.claim(small).jobs == []
    set_clock(broker, START_MS + 3000)
    [parked] = broker.claim(small).jobs
    assert (parked.is_parked, starts(broker, START_MS + 3000)) == (True, Starts())
    return parked


def test_a_job_that_is_parked_starts_when_it_begins(broker: Broker) -> None:
    parked = park(broker)
    assert [broker.began(parked.token, 4.0), broker.began(parked.token, 4.0)] == [True, True]
    assert starts(broker, START_MS + 3000) == Starts(1, 0)
    broker.ack(parked.token, status="succeeded")
    assert not broker.began(parked.token, 4.0)


def test_a_parked_job_that_expires_before_it_begins_misses(broker: Broker) -> None:
    broker.ack(park(broker).token, status="expired")
    assert starts(broker, START_MS + 3000) == Starts(0, 1)


def test_what_is_counted_takes_little_and_is_gone_after_a_day(broker: Broker) -> None:
    both = Both(broker)
    for number in range(200):
        both.apply(Step("publish", number, 0))
        both.apply(Step("claim", 0, 3))
        both.apply(Step("wait", 0, 1 + number % 2))
    assert broker.client.strlen(f"{broker.prefix}starts:{QUEUES[0]}") == 12 * (61 + 97)
    assert 86_400 < int(broker.client.ttl(f"{broker.prefix}starts:{QUEUES[0]}")) < 2 * 86_400
