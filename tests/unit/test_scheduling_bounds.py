"""How long a job can be made to wait by others: the bounds of `docs/scheduling.md`, on the pure policy."""

from hypothesis import given, settings

from inference.guards import Credit, TierTerms
from inference.scheduling import Ask, FairQueue, Waiting
from tests import order_bounds
from tests.order_bounds import TENANT_WEIGHTS, TIER_WEIGHTS, Job, Step

QUEUES = frozenset((tier, length) for tier in TIER_WEIGHTS for length in ("short", "long"))
TERMS = {tier: TierTerms(weight) for tier, weight in TIER_WEIGHTS.items()}


class Policy:
    def __init__(self) -> None:
        self.queue = FairQueue(TENANT_WEIGHTS)
        self.now_ms = 0

    def publish(self, job: Job) -> None:
        self.now_ms = job.arrival_ms
        id_ = job.number.to_bytes(16, "big")
        self.queue.publish(
            Waiting(id_, job.tier, job.tenant, job.length, job.arrival_ms, job.estimate), self.now_ms
        )

    def claim(self, jobs: int) -> list[int]:
        taken = self.queue.claim(Ask(QUEUES, Credit(jobs, 1), jobs, TERMS, now_ms=self.now_ms))
        return [int.from_bytes(id_, "big") for id_ in taken.jobs]


@settings(max_examples=200)
@given(scenario=order_bounds.scenarios())
def test_no_job_is_passed_by_more_than_the_bounds_say(scenario: list[Step]) -> None:
    order_bounds.check(Policy(), scenario)
