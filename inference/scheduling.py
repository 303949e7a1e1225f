"""What runs next: three fair choices at the claim, as pure code over plain data. `docs/scheduling.md` says why.

`inference/broker/lua` makes the same choices from sorted sets, in a time that grows only with the logarithm of the
number of jobs and tenants. This is the policy to read and to test that one against; it looks at every tenant.
`lines` has the order within a tier, `turns` one claim within its guards, `levelling` what it leaves to others.
"""

from collections.abc import Mapping
from dataclasses import replace

from inference.lines import SJF_MS, Waiting
from inference.turn_state import Ask, Lease, State, Taken
from inference.turns import Turn

__all__ = ["SJF_MS", "Ask", "FairQueue", "Taken", "Waiting"]


class FairQueue:
    """The waiting jobs of one model, and the order in which claims take them. Not thread-safe. Times in ms."""

    def __init__(self, tenant_weights: Mapping[str, float] | None = None) -> None:
        self.weights = dict(tenant_weights or {})
        self._state = State(self.weights)
        self._jobs: dict[bytes, Waiting] = {}

    def set_tenant_weight(self, tenant: str, weight: float) -> None:
        """Set a tenant's share from the next claim on; 1 unless set."""
        self.weights[tenant] = weight

    def tier_passes(self) -> dict[str, float]:
        """Return each tier's pass: the service it was charged, by weight; the smallest is next."""
        return {name: tier.pass_ for name, tier in self._state.tiers.items()}

    def tenant_passes(self, tier: str) -> dict[str, float]:
        """Return the pass of each tenant known in a tier."""
        return dict(self._state.tier(tier).passes)

    def publish(self, job: Waiting, now_ms: int = 0) -> bool:
        """Queue a job. False: it is queued or leased already, and nothing changes."""
        if job.job_id in self._jobs:
            return False
        self._jobs[job.job_id] = job
        self._state.came[job.tier] = now_ms
        self._state.line_up(job, now_ms)
        return True

    def claim(self, ask: Ask) -> Taken:
        """Take jobs in order, within the guards, until room or work runs out."""
        return Turn(self._state, ask).take()

    def ack(self, job_id: bytes, used: float | None = None) -> bool:
        """Forget a leased job; `used` service seconds correct what its claim charged."""
        lease = self._state.leased.pop(job_id, None)
        if lease is None:
            return False
        job = self._jobs.pop(job_id)
        if used is not None:
            self._correct(job, lease, used - job.estimate)
        return True

    def release(self, job_id: bytes, now_ms: int = 0, *, alone: bool = False) -> bool:
        """Put a leased job back, with its first arrival. What it was charged is given back.

        `alone`: from now on it must run alone.
        """
        lease = self._state.leased.pop(job_id, None)
        if lease is None:
            return False
        job = self._jobs[job_id] = replace(self._jobs[job_id], alone=self._jobs[job_id].alone or alone)
        self._correct(job, lease, -job.estimate)
        self._state.line_up(job, now_ms)
        return True

    def cancel(self, job_id: bytes) -> bool:
        """Take a waiting job out; a leased one is its worker's to ack."""
        job = self._jobs.get(job_id)
        if job is None or job_id in self._state.leased:
            return False
        self._state.remove(job)
        del self._jobs[job_id]
        return True

    def _correct(self, job: Waiting, lease: Lease, seconds: float) -> None:
        if lease.is_alone:
            return
        tier = self._state.tier(job.tier)
        tier.correct(job.tenant, seconds / lease.tenant_weight)
        if lease.tier_weight is not None:
            tier.pass_ = max(tier.pass_ + seconds / lease.tier_weight, tier.floor)
