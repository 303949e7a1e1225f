"""The facts behind why jobs wait, read from limits, registry, broker and history; `inference.waiting` decides."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from inference import broker, fleet, guards, paces, routing, turns, waiting
from inference.admission import engines
from inference.limits import Limits
from inference.models import Worker
from inference.routing import QueueName
from inference.states import WorkerState

GONE: Final = frozenset({WorkerState.STOPPED, WorkerState.FAILED})


@dataclass(frozen=True, slots=True)
class QueueOutlook:
    """How a queue stands."""

    waiting: waiting.Waiting | None
    """Why its first job waits; None if no job does."""
    expected_wait_seconds: float | None
    """Of a job that came now and went behind all others of its tier; None: nobody can tell."""


class Outlook:
    """Everything known at one moment. Costs a few reads, whatever waits. Raises broker.BrokerAway."""

    def __init__(self, limits: Limits, *, now: datetime, names_operators: bool = False) -> None:
        """Look. `names_operators`: whether details may say who paused or drained, as they may to operators."""
        self.limits = limits
        self.names_operators = names_operators
        names = limits.queues()
        self.stats: Mapping[str, broker.QueueStats] = {s.queue: s for s in broker.get_broker().stats(names)}
        """The queues' numbers, by name."""
        self._names = {name: routing.parse(name) for name in names}
        self._workers = [w for w in Worker.objects.all() if not fleet.is_stale(w.heartbeat_at, now=now)]
        self.replicas = engines.live(self._workers, now=now)
        """Those that capacity goes by."""
        self.now = now
        self._models: dict[str, list[str]] = {}
        self._tiers: dict[tuple[str, str], list[broker.QueueStats]] = {}
        for queue, name in self._names.items():
            self._models.setdefault(name.model, []).append(queue)
            self._tiers.setdefault((name.model, name.tier), []).append(self.stats[queue])
        self._queues: dict[str, waiting.Queue] = {}
        self._engines: dict[str, waiting.Engine] = {}
        self._came: dict[tuple[str, str], float] = {}
        self._alone: frozenset[str] = frozenset()
        self._found: Mapping[str, broker.QueuePlace] = {}

    def of_queues(self) -> dict[str, QueueOutlook]:
        """Return how each queue stands."""
        places = self._places([]).queues
        return {name: self._of_queue(name, place) for name, place in places.items()}

    def of_jobs(self, job_ids: Sequence[UUID]) -> dict[UUID, waiting.Waiting]:
        """Return why each of the jobs waits; those left out that are in no queue and at no worker."""
        places = self._places(job_ids)
        waits = {job_id: self._of_job(place) for job_id, place in places.jobs.items()}
        return waits | {job_id: waiting.at_worker(name) for job_id, name in places.held.items()}

    def job_seconds(self, queue: str) -> float:
        """Return what a job of the queue takes: those that wait, else those of its model that ended lately."""
        stats, name = self.stats[queue], self._names[queue]
        model = self.limits.models[name.model]
        if stats.jobs:
            return stats.work_seconds / stats.jobs
        took = paces.read(name.model, name.tier).took_seconds
        return model.default_output_tokens / model.decode_tokens_per_second if took is None else took

    def _places(self, job_ids: Sequence[UUID]) -> broker.Places:
        places = broker.get_broker().places(list(self._names), job_ids)
        self._found, self._alone = places.queues, places.alone
        agos = ((name, place.came_seconds_ago) for name, place in self._found.items())
        came = {name: seconds for name, seconds in agos if seconds is not None}
        self._came = {(self._names[n].model, self._names[n].tier): seconds for n, seconds in came.items()}
        return places

    def _of_queue(self, name: str, found: broker.QueuePlace) -> QueueOutlook:
        queue, first = self._queue(name), found.first
        last = self._last(queue, self._names[name], first.estimate if first else None)
        held = waiting.decide(queue, self._place(first)) if first else None
        return QueueOutlook(held, waiting.decide(queue, last).seconds)

    def _last(self, queue: waiting.Queue, name: QueueName, estimate: float | None) -> waiting.Place:
        """Return the place of a job like those that wait, that came now and went behind all of its tier."""
        return waiting.Place(
            own_ahead=queue.tier_jobs,
            tiers_ahead=self._tiers_ahead(name, queue.tier_jobs),
            kv_tokens=max(1, queue.job_kv),
            estimate_seconds=estimate,
        )

    def _of_job(self, place: broker.JobPlace) -> waiting.Waiting:
        if place.queue not in self._names:
            return waiting.Waiting(
                waiting.Reason.NO_WORKER, f"queue {place.queue} is not served any more", place.own_ahead + 1, None
            )
        return waiting.decide(self._queue(place.queue), self._place(place))

    def _place(self, found: broker.JobPlace) -> waiting.Place:
        name = self._names[found.queue]
        others = min(found.tenants_ahead, max(0, self._jobs_of(name.model, name.tier) - found.own_jobs))
        return waiting.Place(
            own_ahead=found.own_ahead,
            tenants_ahead=others,
            tiers_ahead=0 if found.alone else self._tiers_ahead(name, found.own_ahead + others),
            tokens=found.tokens,
            kv_tokens=found.tokens + self.limits.models[name.model].kv_margin_tokens,
            estimate_seconds=found.estimate,
            backing_off_seconds=found.backing_off_seconds,
            is_alone=found.alone,
        )

    def _tiers_ahead(self, name: QueueName, ahead: int) -> int:
        tiers = self.limits.tiers
        others = [(t.weight, self._jobs_of(name.model, t.name)) for t in tiers.values() if t.name != name.tier]
        return waiting.ahead_of_other_tiers(ahead=ahead, weight=tiers[name.tier].weight, others=others)

    def _queue(self, name: str) -> waiting.Queue:
        if name not in self._queues:
            self._queues[name] = self._read_queue(name, self._names[name])
        return self._queues[name]

    def _read_queue(self, queue: str, name: QueueName) -> waiting.Queue:
        tier, own = self.limits.tiers[name.tier], self.limits.of_queue(queue)
        workers = [w for w in self._workers if w.model_id == name.model and w.state not in GONE]
        serving = [w for w in workers if routing.served([queue], model=name.model, patterns=w.serve)]
        now, line_seconds = self.now.timestamp(), self._line_seconds(name, serving)
        pace = paces.read(name.model, name.tier)
        still = pace.still_seconds(line_seconds=line_seconds, now=now)
        return waiting.Queue(
            name=queue,
            engines=tuple(self._engine(worker) for worker in serving),
            other_engines=len(workers) - len(serving),
            is_paused=own.is_paused,
            halted_by=own.halted_by if self.names_operators else "",
            caps=tuple(self._caps(queue, name)),
            uses_reserve=tier.uses_reserve,
            max_share=tier.max_share,
            tier_leases=sum(stats.leases for stats in self._of_tier(name.model, name.tier)),
            tier_kv=self._kv_of(name),
            tier_jobs=self._jobs_of(name.model, name.tier),
            job_kv=self._job_kv(name),
            gather_jobs=tier.gather_jobs,
            gather_seconds=tier.gather_seconds,
            oldest_seconds=self._oldest_seconds(name),
            line_seconds=line_seconds,
            service_seconds=pace.service_seconds(self._job_seconds(name), still=still, now=now),
            starts_per_second=sum(self.stats[q].claims_per_second for q in self._models[name.model]),
            still_seconds=still,
        )

    def _engine(self, worker: Worker) -> waiting.Engine:
        if worker.name not in self._engines:
            self._engines[worker.name] = self._read_engine(worker)
        return self._engines[worker.name]

    def _read_engine(self, worker: Worker) -> waiting.Engine:
        model, kept = self.limits.models[worker.model_id], guards.NO_ROOM
        tiers = {self._names[queue].tier for queue in self._served(worker)}
        if any(self.limits.tiers[tier].uses_reserve for tier in tiers):
            kept = guards.reserve(guards.Room(worker.slots, worker.kv_capacity_tokens), model.reserve_share)
        return waiting.Engine(
            name=worker.name,
            state=WorkerState(worker.state),
            detail=self._detail(worker),
            slots=worker.slots,
            in_flight=self._in_flight(worker),
            kv_tokens=worker.kv_capacity_tokens,
            kv_used=worker.kv_used_tokens,
            reserved_slots=kept.sequences,
            reserved_kv=kept.kv_tokens,
            holds_alone=worker.name in self._alone,
            is_online_about=any(self._is_online_about(worker.model_id, tier) for tier in tiers),
        )

    def _detail(self, worker: Worker) -> str:
        detail = worker.state_detail
        return self.limits.of_worker(worker.name).signed(detail) if self.names_operators else detail

    def _served(self, worker: Worker) -> list[str]:
        return routing.served(self._models[worker.model_id], model=worker.model_id, patterns=worker.serve)

    def _in_flight(self, worker: Worker) -> int:
        """Return what it runs. Its report is seconds old; leases are of now, but its own only if it is alone.

        Jobs that were answered hold theirs for a moment beside those that took their slots.
        """
        rivals = [w for w in self._workers if w.model_id == worker.model_id and w.state not in GONE]
        if len(rivals) > 1:
            return worker.in_flight
        return min(worker.slots, sum(self.stats[queue].leases for queue in self._served(worker)))

    def _caps(self, queue: str, name: QueueName) -> Iterable[waiting.CapUse]:
        limits, of_model = self.limits, self._models[name.model]
        bounds = (
            (f"model {name.model}", limits.models[name.model].max_in_flight, of_model),
            (
                f"tier {name.tier}",
                limits.tiers[name.tier].max_in_flight,
                [q for q in of_model if self._names[q].tier == name.tier],
            ),
            (
                f"length class {name.length}",
                limits.lengths[name.length].max_in_flight,
                [q for q in of_model if self._names[q].length == name.length],
            ),
            (f"queue {queue}", limits.of_queue(queue).max_in_flight, [queue]),
        )
        for what, most, counted in bounds:
            if most is not None:
                yield waiting.CapUse(what, most, sum(self.stats[q].leases for q in counted))

    def _of_tier(self, model: str, tier: str) -> list[broker.QueueStats]:
        return self._tiers.get((model, tier), [])

    def _jobs_of(self, model: str, tier: str) -> int:
        """Return the waiting jobs that may be claimed as far as queues go: paused ones compete for nothing."""
        return sum(s.jobs for s in self._of_tier(model, tier) if not self.limits.of_queue(s.queue).is_paused)

    def _job_kv(self, name: QueueName) -> int:
        """Return the KV tokens that one of the tier's waiting jobs needs on average; 0: none waits."""
        tier = self._of_tier(name.model, name.tier)
        jobs = sum(stats.jobs for stats in tier)
        margin = self.limits.models[name.model].kv_margin_tokens
        return sum(stats.tokens for stats in tier) // jobs + margin if jobs else 0

    def _job_seconds(self, name: QueueName) -> float | None:
        """Return what one of the tier's waiting jobs is estimated at on average; None: none waits."""
        tier = self._of_tier(name.model, name.tier)
        jobs = sum(stats.jobs for stats in tier)
        return sum(stats.work_seconds for stats in tier) / jobs if jobs else None

    def _kv_of(self, name: QueueName) -> int:
        """Return the KV tokens of the tier's jobs in flight."""
        margin = self.limits.models[name.model].kv_margin_tokens
        tier = self._of_tier(name.model, name.tier)
        return sum(self._found[stats.queue].leased_tokens + stats.leases * margin for stats in tier)

    def _is_online_about(self, model: str, tier: str) -> bool:
        """Whether it is a tier without a share that has work or had some come lately: then shares bind."""
        if self.limits.tiers[tier].max_share < 1:
            return False
        came = self._came.get((model, tier))
        return bool(self._jobs_of(model, tier)) or (came is not None and came * 1000 <= turns.ONLINE_MS)

    def _oldest_seconds(self, name: QueueName) -> float:
        arrivals = [s.oldest_arrival_ms for s in self._of_tier(name.model, name.tier) if s.oldest_arrival_ms]
        now_ms = self.now.timestamp() * 1000
        return max(0.0, now_ms - min(arrivals, default=now_ms)) / 1000

    def _line_seconds(self, name: QueueName, serving: Iterable[Worker]) -> float:
        """Return for how long jobs of the tier have waited while queues and workers were as they are now."""
        tier = [(stats, self.limits.of_queue(stats.queue)) for stats in self._of_tier(name.model, name.tier)]
        claimable = [(stats, limits) for stats, limits in tier if not limits.is_paused]
        arrivals = [stats.oldest_arrival_ms / 1000 for stats, _ in claimable if stats.oldest_arrival_ms]
        changed = [limits.resumed_at for _, limits in claimable if limits.resumed_at is not None]
        changed += [w.ready_at.timestamp() for w in serving if w.state == WorkerState.READY and w.ready_at]
        now = self.now.timestamp()
        return max(0.0, now - max([min(arrivals, default=now), *changed]))
