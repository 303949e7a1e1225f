"""What admission should know after any history: sets and sums beside the broker, decided on by the pure code."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from inference.admission import decisions
from inference.admission.decisions import Amount, Facts, QueueFacts
from inference.admission.drained import HALF_MINUTE, Drained, drained
from inference.admission.terms import Asked, QueueTerms, Refusal, Usage, Wanted
from inference.admission.windows import MINUTE, SECOND, Window
from inference.broker import Bounds, Broker
from inference.broker.queues import RESERVATION_SECONDS
from inference.broker.spills import FEEDING_SECONDS
from inference.limits import KeyLimits, QueueCaps, TenantLimits

MODEL: Final = "m-1.5/x"
TIERS: Final = ("realtime", "bulk")
QUEUES: Final = tuple(f"{MODEL}.{tier}.{length}" for tier in TIERS for length in ("short", "long"))
OF_TIER: Final = {tier: tuple(q for q in QUEUES if f".{tier}." in q) for tier in TIERS}
TENANTS: Final = ("ann", "bob")
GRACE_MS, EARLY_MS = 5000, 500


@dataclass(frozen=True)
class Ask:
    first: int
    jobs: tuple[tuple[int, int, int, int], ...]
    """Queue, prompt tokens, most output, bytes of each."""
    tenant: str
    key: KeyLimits
    limits: TenantLimits
    caps: QueueCaps
    max_wait_ms: int | None
    model_bytes: int | None
    own_slots: int | None
    held_jobs: int
    may_spill: bool


@dataclass(frozen=True)
class Verb:
    name: str
    number: int
    tokens: int | None


@dataclass(frozen=True)
class Pass:
    ms: int


Step = Ask | Verb | Pass


@dataclass
class Held:
    asked: Asked
    queue: str
    tokens: int
    prompt: int
    bytes: int
    work: int
    admitted_ms: int | None
    ends_ms: int = 0
    is_on_hold: bool = False
    is_spilled: bool = False
    published_ms: int = 0


@dataclass
class Ledger:
    """The state, by id."""

    broker: Broker
    now_ms: int
    reserved: dict[UUID, Held] = field(default_factory=dict)
    waiting: dict[UUID, Held] = field(default_factory=dict)
    leased: dict[UUID, Held] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    spilled: dict[UUID, Held] = field(default_factory=dict)
    claimed: dict[str, Window] = field(default_factory=dict)
    back: dict[str, int] = field(default_factory=dict)
    """Since when the oldest waits that did not come back to the queue, ms."""

    def ask(self, asked: Asked) -> tuple[Refusal | None, dict[str, Refusal], set[str]]:
        """Decide, and keep what was taken; says what queues took on hold, and which spilled."""
        self.lapse()
        amounts = {terms.name: amount_of(asked, terms) for terms in asked.queues}
        facts = self.facts(asked)
        refusal = decisions.decide(asked, amounts, facts)
        if refusal is not None:
            return refusal, {}, set()
        found = {t.name: (t, amounts[t.name], facts.queues[t.name]) for t in asked.queues}
        spills = {name for name, known in found.items() if decisions.is_spilled(*known)}
        could_hold = {name: decisions.held(*known) for name, known in found.items() if name not in spills}
        held = {name: refusal for name, refusal in could_hold.items() if refusal}
        self.take(asked, amounts, on_hold=set(held), spills=spills)
        return None, held, spills

    def lapse(self) -> None:
        for job_id in [job_id for job_id, held in self.reserved.items() if held.ends_ms <= self.now_ms]:
            held = self.reserved.pop(job_id)
            if held.is_spilled:
                self.spilled[job_id] = held

    def feed(self, queue: str, bounds: Bounds) -> list[UUID]:
        """Reserve room for the queue's spilled jobs, as they came."""
        self.lapse()
        taken = []
        for job_id, held in [(i, h) for i, h in self.spilled.items() if h.queue == queue]:
            waits = (*self.reserved.values(), *self.waiting.values())
            own = [other for other in waits if other.queue == queue]
            if held.tokens > (bounds.tokens or 0) or held.bytes > (bounds.bytes or 0):
                continue
            if (
                len(own) >= bounds.jobs
                or sum(other.tokens for other in own) + held.tokens > (bounds.tokens or 0)
                or sum(other.bytes for other in own) + held.bytes > (bounds.bytes or 0)
                or sum(other.bytes for other in waits) + held.bytes > (bounds.model_bytes or 0)
            ):
                break
            held.ends_ms = self.now_ms + FEEDING_SECONDS * 1000
            self.reserved[job_id] = self.spilled.pop(job_id)
            taken.append(job_id)
        return taken

    def facts(self, asked: Asked) -> Facts:
        unstarted = (*self.reserved.values(), *self.waiting.values(), *self.spilled.values())
        own = [held for held in unstarted if held.asked.tenant == asked.tenant]
        running = [held for held in self.leased.values() if held.asked.tenant == asked.tenant]
        return Facts(
            now_ms=self.now_ms,
            second=self.window(f"burst:{asked.owner}"),
            minute=self.window(f"rate:{asked.owner}"),
            tenant_minute=self.window(f"rate:tenant={asked.tenant}"),
            tenant_queued=len(own),
            tenant_unfinished=len(own) + len(running),
            queues={terms.name: self.queue_facts(asked, terms) for terms in asked.queues},
        )

    def queue_facts(self, asked: Asked, terms: QueueTerms) -> QueueFacts:
        soon = self.kept(terms.name, asked.ticket, decisions.BEARS * (terms.max_wait_ms or 0))
        behind = self.waiting_in(terms.line)
        own = [held for held in behind if held.queue == terms.name]
        return QueueFacts(
            jobs=len(own),
            tokens=sum(held.tokens for held in own),
            bytes=sum(held.bytes for held in own),
            model_bytes=sum(h.bytes for h in (*self.reserved.values(), *self.waiting.values())),
            line_jobs=len(behind),
            line_work_ms=sum(held.work for held in behind),
            before=[(len(w), sum(h.work for h in w)) for w in (self.waiting_in(t.queues) for t in terms.before)],
            leases=len(self.leased),
            work_ms=sum(held.work for held in own),
            own_leases=sum(held.queue == terms.name for held in self.leased.values()),
            held=sum(held.is_on_hold for held in own),
            spilled=sum(held.queue == terms.name for held in self.spilled.values()),
            drained=self.drained(terms.name),
            own_jobs=sum(h.queue == terms.name and h.asked.tenant == asked.tenant for h in self.waiting.values()),
            **self.turns_in_tier(terms.name, asked.tenant),
            has_turn=bool(self.turns_of(terms.name, asked.ticket)),
            kept=len(self.kept(terms.name, asked.ticket)),
            soon=len(soon),
            own_soon=sum(asked.tenant in ticket for ticket in soon),
        )

    def waiting_in(self, queues: Sequence[str]) -> list[Held]:
        return [held for held in (*self.reserved.values(), *self.waiting.values()) if held.queue in queues]

    def claim(self, job_id: UUID) -> None:
        held = self.leased[job_id] = self.waiting.pop(job_id)
        held.is_on_hold = False
        self.claimed.setdefault(held.queue, Window(HALF_MINUTE)).add(1, 0, self.now_ms)

    def come_back(self, job_id: UUID, held: Held) -> None:
        others = [other.published_ms for other in self.waiting.values() if other.queue == held.queue]
        self.back[held.queue] = max(min(others, default=self.now_ms), self.back.get(held.queue, 0))
        self.waiting[job_id] = held

    def drained(self, queue: str) -> Drained:
        came = [held.published_ms for held in self.waiting.values() if held.queue == queue]
        claimed, back_ms = self.claimed.get(queue, Window(HALF_MINUTE)), self.back.get(queue, 0)
        return drained(claimed, min(came, default=None), self.now_ms, back_ms=back_ms)

    def turns_in_tier(self, queue: str, tenant: str) -> dict[str, int]:
        tier = queue.rpartition(".")[0]
        found = [h.asked.tenant for h in self.waiting.values() if h.queue.rpartition(".")[0] == tier]
        return {"tier_waiting": len(found), "tier_own": found.count(tenant), "tier_tenants": len(set(found))}

    def turns(self, queue: str) -> list[tuple[str, float]]:
        """Turns are the broker's to give; what they keep free is counted here anew."""
        client: Any = self.broker.client
        found = client.zrange(f"{self.broker.prefix}turns:{queue}", 0, -1, withscores=True)
        return [(name.decode().rpartition(":")[0], due) for name, due in found if due >= self.now_ms - GRACE_MS]

    def turns_of(self, queue: str, ticket: str) -> list[float]:
        return [due for other, due in self.turns(queue) if other == ticket and due <= self.now_ms + EARLY_MS]

    def kept(self, queue: str, ticket: str, within_ms: int = 0) -> list[str]:
        """Return the tickets that room is kept for."""
        last = self.now_ms + max(EARLY_MS, within_ms)
        own = self.turns_of(queue, ticket)
        others = [(other, due) for other, due in self.turns(queue) if other != ticket]
        return [other for other, due in others if (due < min(own) if own else due <= last)]

    def window(self, name: str) -> Window:
        return self.windows.setdefault(name, Window(SECOND if name.startswith("burst:") else MINUTE))

    def counted(self, asked: Asked) -> list[str]:
        key, own = asked.key, asked.limits
        found = [f"burst:{asked.owner}"] if key.requests_per_second is not None else []
        found += [f"rate:{asked.owner}"] if {key.requests_per_minute, key.tokens_per_minute} != {None} else []
        has_tenant = {own.requests_per_minute, own.tokens_per_minute} != {None}
        return found + ([f"rate:tenant={asked.tenant}"] if has_tenant else [])

    def take(self, asked: Asked, amounts: dict[str, Amount], *, on_hold: set[str], spills: set[str]) -> None:
        tokens = sum(amount.tokens for amount in amounts.values())
        for name in self.counted(asked):
            self.window(name).add(len(asked.jobs), tokens, self.now_ms)
        terms = {each.name: each for each in asked.queues}
        for job in asked.jobs:
            amount = amount_of_job(job, terms[job.queue])
            (self.spilled if job.queue in spills else self.reserved)[job.job_id] = Held(
                asked, job.queue, amount.tokens, job.prompt_tokens, job.bytes, amount.work_ms,
                self.now_ms, self.now_ms + RESERVATION_SECONDS * 1000, job.queue in on_hold, job.queue in spills,
            )  # fmt: skip

    def usages(self, asked: Asked) -> tuple[Usage | None, Usage | None]:
        names = self.counted(asked)
        return tuple(  # type: ignore[return-value]
            self.usage(name) if name in names else None
            for name in (f"rate:{asked.owner}", f"rate:tenant={asked.tenant}")
        )

    def usage(self, name: str) -> Usage:
        window, now = self.window(name), self.now_ms
        return Usage(int(window.requests(now)), int(window.tokens(now)), window.clears_after_ms(now))

    def withdraw(self, job_id: UUID) -> None:
        held = self.reserved.pop(job_id, None) or self.spilled.pop(job_id, None)
        if held is None or held.admitted_ms is None:
            return
        for name in self.counted(held.asked):
            self.window(name).give_back(held.admitted_ms, 1, held.tokens, self.now_ms)

    def settle(self, held: Held, tokens: int | None) -> None:
        """Its end puts right what it was let in with."""
        key, own = held.asked.key, held.asked.limits
        is_metered = key.tokens_per_minute is not None or own.tokens_per_minute is not None
        if tokens is None or held.admitted_ms is None or not is_metered:
            return
        names = [f"rate:{held.asked.owner}"] if key.tokens_per_minute is not None else []
        for name in [*names, f"rate:tenant={held.asked.tenant}"]:
            if self.window(name).live(self.now_ms):
                self.window(name).correct(held.admitted_ms, held.tokens, tokens, self.now_ms)


def amount_of_job(job: Wanted, terms: QueueTerms) -> Amount:
    expected = max(1, min(terms.expected_tokens, job.most_tokens))
    work = int(job.prompt_tokens * terms.prompt_ms + expected * terms.output_ms + 0.5)
    return Amount(1, job.prompt_tokens + expected, job.bytes, work)


def amount_of(asked: Asked, terms: QueueTerms) -> Amount:
    found = [amount_of_job(job, terms) for job in asked.jobs if job.queue == terms.name]
    return Amount(
        len(found),
        sum(a.tokens for a in found),
        sum(a.bytes for a in found),
        sum(a.work_ms for a in found),
        largest_tokens=max(a.tokens for a in found),
        largest_bytes=max(a.bytes for a in found),
    )
