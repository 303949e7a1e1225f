"""Holds the queue in Redis against the rows, which are the truth, in both directions."""

import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from inference import broker, lifecycle, maintenance, publication, snapshot
from inference.models import Job, Tenant
from inference.states import TERMINAL, JobStatus, ReleaseReason

logger = logging.getLogger(__name__)

GRACE: Final = timedelta(seconds=5)
"""Younger changes are still on their way between row and queue."""
RUN_SECONDS: Final = 5.0
"""A run stops after this; the next goes on where it stopped."""

START: Final = uuid.UUID(int=0)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What a run put right."""

    published: int = 0
    rescued: int = 0
    discarded: int = 0
    uncounted: int = 0
    """Jobs that a tenant's caps counted, and that are nowhere."""
    unreserved: int = 0
    """Jobs for whose costs a budget kept room, and that are nowhere."""
    unspilled: int = 0
    """Jobs that counted as spilled, and whose rows are not."""
    spilled: int = 0
    """Spilled rows that the broker did not know."""


@dataclass(slots=True)
class Walk:
    """Over what is kept under each of many names, a part at a time. It remembers where it was."""

    name: str = ""
    """The last whose parts were all looked at."""
    cursor: str = "0"
    """The broker's place in the next one's."""

    def go(self, names: Iterable[str], sweep: Callable[[str, str, int], tuple[str, int]]) -> int:
        """Sweep for a bounded time, by name; says how much that took off."""
        ends_at, count = time.monotonic() + RUN_SECONDS, 0
        for name in sorted(name for name in names if name > self.name):
            while time.monotonic() < ends_at:
                self.cursor, gone = sweep(name, self.cursor, maintenance.CHUNK)
                count += gone
                if self.cursor == "0":
                    self.name = name
                    break
            else:
                return count
        self.name = ""
        return count


@dataclass(slots=True)
class Reconciler:
    """One process's walk over rows and entries. It remembers where it was."""

    after: uuid.UUID = START
    """The last queued row looked at."""
    cursor: str = "0"
    """The broker's place in its entries."""
    tenants: Walk = field(default_factory=Walk)
    payers: Walk = field(default_factory=Walk)
    queues: Walk = field(default_factory=Walk)
    spilled_after: uuid.UUID = START
    """The last spilled row looked at."""

    def run(self, now: datetime) -> Reconciled:
        """Put right what a bounded time allows. Raises broker.BrokerAway and django.db.Error: nothing is lost."""
        with maintenance.only_one("reconcile") as is_ours:
            if not is_ours:
                return Reconciled()
            # What is published first keeps what it reserved in budgets and rates.
            moved = self._publish(now), self._rescue(now), self._discard(now)
            swept = self._sweep_tenants(), self._sweep_costs(), self._unspill()
            done = Reconciled(*moved, *swept, self._spill())
        if done != Reconciled():
            logger.warning("Queue and rows differed: %s", done, extra={"action": "reconciled"})
        return done

    def _publish(self, now: datetime) -> int:
        """Queue rows that wait and that the broker does not hold: Redis was wiped, or a publish was lost."""
        ends_at, count = time.monotonic() + RUN_SECONDS, 0
        while time.monotonic() < ends_at:
            rows = list(_waiting(self.after, now))
            count += _publish_missing(rows)
            self.after = rows[-1].id if len(rows) == maintenance.CHUNK else START
            if self.after == START:
                break
        return count

    def _rescue(self, now: datetime) -> int:
        """Take back running jobs that lacked a lease for longer than one: a live worker would have restored it."""
        lost = list(broker.get_broker().missing(_running_without_lease(), lease_seconds=settings.LEASE_SECONDS))
        for i in range(0, len(lost), maintenance.CHUNK):
            _rescue(lost[i : i + maintenance.CHUNK], now)
        return len(lost)

    def _discard(self, now: datetime) -> int:
        """Drop entries whose row is finished or gone: an ack was lost."""
        ends_at, count = time.monotonic() + RUN_SECONDS, 0
        while time.monotonic() < ends_at:
            self.cursor, ids = broker.get_broker().entries(self.cursor, maintenance.CHUNK)
            count += _discard_finished(ids, now)
            if self.cursor == "0":
                break
        return count

    def _sweep_tenants(self) -> int:
        """Count no job for a tenant that is neither queued, leased nor reserved: its entry was lost."""
        names = Tenant.objects.values_list("name", flat=True)
        return self.tenants.go(names, broker.get_broker().sweep)

    def _sweep_costs(self) -> int:
        """Keep no room in a budget for the costs of such a job."""
        return self.payers.go(snapshot.limits().budgets, broker.get_broker().sweep_costs)

    def _spill(self) -> int:
        """Know the spilled rows as such again that the broker does not: Redis was wiped."""
        ends_at, count = time.monotonic() + RUN_SECONDS, 0
        while time.monotonic() < ends_at:
            found = Job.objects.filter(status=JobStatus.SPILLED, id__gt=self.spilled_after).order_by("id")
            ids = list(found.values_list("id", flat=True)[: maintenance.CHUNK])
            count += _spill_unknown(ids)
            self.spilled_after = ids[-1] if len(ids) == maintenance.CHUNK else START
            if self.spilled_after == START:
                break
        return count

    def _unspill(self) -> int:
        """Count no job as spilled whose row is not: who was to write or publish it died."""
        return self.queues.go(snapshot.limits().queues(), _drop_unspilled)


def _spill_unknown(ids: list[uuid.UUID]) -> int:
    missing = set(ids).difference(broker.get_broker().known(ids))
    rows = Job.objects.filter(id__in=missing).defer("request", "result") if missing else ()
    return sum(broker.get_broker().spill([publication.entry_of(job, tenant_weight=1.0) for job in rows]))


def _drop_unspilled(queue: str, cursor: str, count: int) -> tuple[str, int]:
    after, ids = broker.get_broker().spilled(queue, cursor, count)
    spilled = Job.objects.filter(id__in=ids, status=JobStatus.SPILLED).values_list("id", flat=True) if ids else ()
    gone = set(ids).difference(spilled)
    broker.get_broker().unspill(gone)
    return after, len(gone)


def _waiting(after: uuid.UUID, now: datetime) -> list[Job]:
    """Return the next chunk of rows that have waited for a while, by id."""
    rows = Job.objects.filter(status=JobStatus.QUEUED, id__gt=after).exclude(queued_at__range=_lately(now))
    return list(rows.select_related("tenant").defer("request", "result").order_by("id")[: maintenance.CHUNK])


def _lately(now: datetime) -> tuple[datetime, datetime]:
    """Return what counts as young. What comes from the future is not: a clock, perhaps ours, was or is wrong."""
    return now - GRACE, now + GRACE


def _publish_missing(rows: list[Job]) -> int:
    held = broker.get_broker().held([job.id for job in rows])
    missing = [job for job in rows if job.id not in held]
    # A job that started since it was read is leased, and a publish of a leased one does nothing.
    entries = [publication.entry_of(job, tenant_weight=job.tenant.weight) for job in missing]
    return sum(broker.get_broker().publish(entries))


def _running_without_lease() -> list[broker.Token]:
    """Return the claims of running rows that the broker does not hold. In flight is bounded, so all are read."""
    rows = Job.objects.filter(status=JobStatus.RUNNING).order_by("id").values_list("id", "claim_id")
    tokens = [broker.Token(job_id, claim_id) for job_id, claim_id in rows if claim_id]
    held = broker.get_broker().held([token.job_id for token in tokens])
    return [token for token in tokens if token.job_id not in held]


def _rescue(tokens: list[broker.Token], now: datetime) -> None:
    applied = lifecycle.apply([lifecycle.Release(t, ReleaseReason.LEASE_EXPIRED) for t in tokens], now=now)
    waiting = [answer.job_id for answer in applied if answer.moved and answer.status is JobStatus.QUEUED]
    rows = Job.objects.filter(id__in=waiting).select_related("tenant").defer("request", "result")
    publication.publish([publication.entry_of(job, tenant_weight=job.tenant.weight) for job in rows])
    for answer in applied:
        if answer.moved and answer.status in TERMINAL:
            broker.get_broker().notify(answer.job_id, kind=str(answer.status))


def _discard_finished(ids: list[uuid.UUID], now: datetime) -> int:
    status = dict(Job.objects.filter(id__in=ids).values_list("id", "status"))
    settling = Job.objects.filter(id__in=ids, status__in=TERMINAL, finished_at__range=_lately(now))
    fresh = set(settling.values_list("id", flat=True))
    over = [i for i in ids if status.get(i, JobStatus.CANCELLED) in TERMINAL and i not in fresh]
    dropped = broker.get_broker().discard(over)
    for job_id in dropped:
        broker.get_broker().notify(job_id, kind=str(status.get(job_id, JobStatus.CANCELLED)))
    return len(dropped)
