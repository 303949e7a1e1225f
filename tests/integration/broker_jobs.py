"""Jobs for the broker's tests: small words for publishing and claiming."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import uuid_utils.compat

from inference.admission.terms import Answer, Asked, QueueTerms, Wanted
from inference.broker import Broker, Claimed, ClaimRequest, Credit, Entry, TierTerms
from inference.limits import QueueCaps

QUEUE: Final = "smollm2-135m-instruct.standard.short"
PLENTY: Final = Credit(sequences=1000, kv_tokens=10**9)
TIERS: Final = {"realtime": TierTerms(400.0), "standard": TierTerms(100.0), "bulk": TierTerms(1.0)}


def make_entry(**overrides: Any) -> Entry:
    fields: dict[str, Any] = {
        "job_id": uuid_utils.compat.uuid7(),
        "queue": QUEUE,
        "tenant": "ann",
        "prompt_tokens": 100,
        "expected_tokens": 20,
        "estimate": 1.5,
    }
    return Entry(**(fields | overrides))


def asked(queue: str, job_ids: Sequence[UUID], *, cap: int = 1 << 30, slots: int = 32, **overrides: Any) -> Asked:
    """Ask for room for jobs of 100 tokens of prompt and 20 of output, in one queue."""
    terms = QueueTerms(
        name=queue,
        caps=QueueCaps(cap),
        slots=slots,
        prompt_ms=2.0,
        output_ms=100.0,
        expected_tokens=20,
        line=(queue,),
    )
    values: dict[str, Any] = {"tenant": "ann", "owner": "key=sk-ann", "queues": [terms]}
    values["jobs"] = [Wanted(job_id, queue, 100, 1000, 300) for job_id in job_ids]
    return Asked(**values | overrides)


def admit(broker: Broker, queue: str, job_ids: Sequence[UUID], **overrides: Any) -> Answer:
    return broker.admit(asked(queue, job_ids, **overrides))


def claim(broker: Broker, queues: Sequence[str] = (QUEUE,), **overrides: Any) -> list[Claimed]:
    arguments: dict[str, Any] = {
        "credit": PLENTY,
        "limit": 10,
        "worker": "worker-1",
        "lease_seconds": 60.0,
        "tiers": TIERS,
    }
    return broker.claim(ClaimRequest(tuple(queues), **(arguments | overrides))).jobs


def claim_one(broker: Broker, **overrides: Any) -> Claimed:
    """Publish a job and claim it."""
    lease_seconds = overrides.pop("lease_seconds", 60.0)
    assert broker.publish([make_entry(**overrides)]) == [True]
    (claimed,) = claim(broker, [overrides.get("queue", QUEUE)], lease_seconds=lease_seconds)
    return claimed


def keys(broker: Broker) -> set[str]:
    """Kinds of the keys that there are under the broker's prefix: what follows it, up to the first colon."""
    found = broker.client.scan_iter(match=f"{broker.prefix}*", count=10_000)
    return {key.removeprefix(broker.prefix.encode()).split(b":")[0].decode() for key in found}
