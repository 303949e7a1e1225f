"""How long a job can be made to wait by others: the bounds of `docs/scheduling.md`, on the broker."""

import secrets
from uuid import UUID

from hypothesis import given, settings

from inference import broker as broker_module
from inference.broker import Broker, ClaimRequest, Credit, Entry, TierTerms
from tests import order_bounds
from tests.order_bounds import TENANT_WEIGHTS, TIER_WEIGHTS, Job, Step

QUEUES = tuple(f"m.{tier}.{length}" for tier in TIER_WEIGHTS for length in ("short", "long"))
TERMS = {tier: TierTerms(weight) for tier, weight in TIER_WEIGHTS.items()}


class Script:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def publish(self, job: Job) -> None:
        entry = Entry(
            job_id=UUID(int=job.number),
            queue=f"m.{job.tier}.{job.length}",
            tenant=job.tenant,
            prompt_tokens=1,
            expected_tokens=1,
            estimate=job.estimate,
            arrival_ms=job.arrival_ms,
            tenant_weight=TENANT_WEIGHTS[job.tenant],
        )
        assert self.broker.publish([entry]) == [True]

    def claim(self, jobs: int) -> list[int]:
        request = ClaimRequest(QUEUES, Credit(jobs, 10**9), jobs, "w", 60.0, TERMS)
        return [claimed.token.job_id.int for claimed in self.broker.claim(request).jobs]


@settings(max_examples=40)
@given(scenario=order_bounds.scenarios())
def test_no_job_is_passed_by_more_than_the_bounds_say(valkey: str, scenario: list[Step]) -> None:
    client = broker_module.connect(valkey)
    order_bounds.check(Script(Broker(client, prefix=f"{{bounds-{secrets.token_hex(6)}}}:")), scenario)
    client.close()
