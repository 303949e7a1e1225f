"""One claim: what it may take within its guards, tier by tier. Pure; see `docs/scheduling.md`."""

import math
from typing import Final

from inference import levelling
from inference.guards import NO_TERMS, Room
from inference.levelling import Queue
from inference.lines import SET_TOUCH_MS, Waiting
from inference.turn_state import Allowance, Ask, Bid, Lease, State, Taken

OVERTAKE_MS: Final = 2_000
"""How long others may pass a job that fits no asking worker, from when it first did not fit."""
MAX_SKIPS: Final = 8
"""Tenants of a tier whose jobs do not fit, that one claim looks past."""
AWAY_MS: Final = 10_000
"""A tier that took part in no choice for so much longer than another was away, and comes back beside it."""
ONLINE_MS: Final = 10_000
"""Online work that came in this time still bounds the shares of the other tiers."""


class Turn:
    """The state of one claim."""

    def __init__(self, state: State, ask: Ask) -> None:
        self._state, self._ask, self._now_ms = state, ask, ask.now_ms
        self._kv_tokens, self._again_ms = ask.credit.kv_tokens, math.inf
        self._taken: list[bytes] = []
        self._parked: bytes | None = None
        self._is_alone = False
        leased = [lease.queue for lease in state.leased.values()]
        self._caps = [Allowance(qs, jobs - sum(q in qs for q in leased)) for qs, jobs in ask.caps]
        self._level: Allowance | None = None
        self._left_to_others = 0
        self._has_declined = False
        self._bids = self._make_bids()

    def take(self) -> Taken:
        """Take one job after another until room or work runs out."""
        for bid in self._bids:
            self._narrow(bid)
        for tier in self._state.tiers.values():
            tier.forget_sets(self._now_ms)
        if self._most > 0:
            self._meet_others()
            self._look_at_tiers()
            self._place_absent()
            if self._ask.credit.alone_ms == 0:
                self._take_alone()
        while len(self._taken) < self._most and self._parked is None and (chosen := self._next()):
            self._serve(chosen)
        self._look_for_alone()
        self._tell_others()
        again_ms = None if self._again_ms == math.inf else int(self._again_ms)
        return Taken(self._taken, self._parked, again_ms, self._is_alone)

    @property
    def _most(self) -> int:
        return max(0, min(self._ask.limit, self._ask.credit.sequences))

    def _make_bids(self) -> list[Bid]:
        names = {tier for tier, _ in self._ask.queues}
        terms = {name: self._ask.tiers.get(name, NO_TERMS) for name in names}
        return [
            Bid(
                n,
                self._state.tier(n),
                terms[n],
                frozenset(length for tier, length in self._ask.queues if tier == n),
            )
            for n in sorted(names, key=lambda name: (-terms[name].weight, name))
        ]

    def _narrow(self, bid: Bid) -> bool:
        """Work out what may be taken of a tier now. False: as before."""
        held = frozenset(length for length in bid.served if self._is_held((bid.name, length)))
        left = {length for length in bid.served - held if self._is_left((bid.name, length))}
        before, bid.held, bid.open = bid.open, held, bid.served - held - left
        bid.tier.use_set(bid.open, self._now_ms)
        return bid.open != before

    def _is_held(self, queue: Queue) -> bool:
        return queue in self._ask.paused or any(cap.left < 1 and queue in cap.queues for cap in self._caps)

    def _is_left(self, queue: Queue) -> bool:
        return self._level is not None and self._level.left < 1 and queue in self._level.queues

    def _look_at_tiers(self) -> None:
        for bid in self._bids:
            self._find_tenant(bid)
        online = (bid for bid in self._bids if bid.terms.share is None)
        is_bound = any(bid.tenant or self._came_lately(bid.name) for bid in online)
        for bid in self._bids:
            bid.share = bid.terms.share if is_bound else None
            bid.is_gathering = self._gathers(bid)

    def _place_absent(self) -> None:
        """Put tiers that took no part in choices for a while, or never yet, beside those that did."""
        if len(self._bids) < 2:
            return
        seen_ms = max(0, *(bid.tier.seen_ms for bid in self._bids))
        for bid in self._bids:
            bid.is_back = seen_ms - bid.tier.seen_ms > AWAY_MS
        floor = min((bid.tier.pass_ for bid in self._bids if not bid.is_back), default=0.0)
        for bid in self._bids:
            if bid.is_back:
                bid.tier.push(floor)
            if bid.is_back or self._now_ms - bid.tier.seen_ms > SET_TOUCH_MS:
                bid.tier.seen_ms = self._now_ms

    def _came_lately(self, tier: str) -> bool:
        return self._now_ms - self._state.came.get(tier, -ONLINE_MS - 1) <= ONLINE_MS

    def _gathers(self, bid: Bid) -> bool:
        """Whether a worker that has other work waits for more of this tier to come."""
        left_ms = 0 if bid.tenant is None else self._state.gathering_ms(bid, self._now_ms)
        if left_ms <= 0 or not self._ask.load.in_flight:
            return False
        self._ask_again(left_ms)
        return True

    def _find_tenant(self, bid: Bid) -> None:
        is_over = len(bid.skipped) >= MAX_SKIPS
        bid.tenant = None if is_over else bid.tier.next_tenant(bid.open, bid.skipped)

    def _is_barred(self, bid: Bid) -> bool:
        """Whether reserve, share, a gather window or a job that waits for the share holds the whole tier back."""
        free = self._ask.credit.sequences - len(self._taken)
        is_reserved = not bid.terms.uses_reserve and free <= self._ask.credit.reserve.sequences
        is_shared_out = bid.share is not None and bid.share.sequences < 1
        return bid.is_gathering or bid.is_emptying or is_reserved or is_shared_out

    def _next(self) -> Bid | None:
        """Return the tier whose turn it is. Equal passes: one that is back, then the heavier, then by name."""
        return min(
            (bid for bid in self._bids if bid.tenant is not None and not self._is_barred(bid)),
            key=lambda bid: (bid.tier.pass_, not bid.is_back),
            default=None,
        )

    def _serve(self, bid: Bid) -> None:
        job = self._fitting(bid)
        if job is None:
            bid.skipped.add(str(bid.tenant))
            self._find_tenant(bid)
            return
        self._push_held_back(bid.tier.pass_)
        self._take(bid, job)
        if len(self._taken) >= self._most or self._parked:
            return
        changed = [other for other in self._bids if self._narrow(other) or other is bid]
        for each in changed:
            self._find_tenant(each)

    def _next_alone(self) -> Waiting | None:
        """Return the first that must run alone and may be taken, heavier tiers first; one is out at a time."""
        is_out = any(lease.is_alone for lease in self._state.leased.values())
        firsts = [job for bid in self._bids for job in self._state.first_alone(bid.name, bid.open)]
        return next((job for job in firsts if not (is_out or self._is_for_larger(job))), None)

    def _take_alone(self) -> None:
        """Take it, if there is one. Nobody is charged: it costs the others more than it says."""
        if job := self._next_alone():
            self._state.remove(job)
            self._state.leased[job.job_id] = Lease((job.tier, job.length), 1.0, None, is_alone=True)
            self._taken.append(job.job_id)
            self._parked, self._is_alone = job.job_id, True
            self._count((job.tier, job.length))

    def _look_for_alone(self) -> None:
        """Take one while there is nothing else to do; else its time is to be waited for."""
        due_ms = self._ask.credit.alone_ms
        if not due_ms or self._most < 1 or self._parked:
            return
        if not self._taken and not self._ask.load.in_flight:
            self._take_alone()
        elif self._next_alone():
            self._ask_again(due_ms)

    def _is_for_larger(self, job: Waiting) -> bool:
        """Whether a job can never run here, and may elsewhere."""
        return job.kv_tokens > self._ask.whole_tokens and (job.tier, job.length) in self._ask.larger

    def _fitting(self, bid: Bid) -> Waiting | None:
        """Return the tenant's first head that fits, or has waited for room long enough to be parked here."""
        for job in bid.tier.busy[str(bid.tenant)].heads(bid.open):
            if self._is_for_larger(job):
                continue
            if self._need(job) <= self._room(bid):
                return job
            left_ms = self._state.unfit.setdefault(job.job_id, self._now_ms) + OVERTAKE_MS - self._now_ms
            if bid.share and self._need(job) > bid.share.kv_tokens:
                # Its tier's share bars it, which is for a job of any size once the tier holds nothing here.
                if left_ms <= 0:
                    bid.is_emptying = True
                    return None
                continue
            if self._ask.credit.may_park and left_ms <= 0:
                self._parked = job.job_id
                return job
            if self._ask.credit.may_park:
                self._ask_again(left_ms)
        return None

    def _need(self, job: Waiting) -> int:
        return job.kv_tokens + self._ask.credit.margin_tokens

    def _room(self, bid: Bid) -> int:
        free = self._kv_tokens - (0 if bid.terms.uses_reserve else self._ask.credit.reserve.kv_tokens)
        return min(free, bid.share.kv_tokens) if bid.share else free

    def _push_held_back(self, pass_: float) -> None:
        """Who may not take part in this choice falls no further behind than where it was made."""
        if len(self._bids) < 2:
            return
        for bid in self._bids:
            if not bid.skipped and (bid.tenant is None or self._is_barred(bid)):
                bid.tier.push(pass_)

    def _take(self, bid: Bid, job: Waiting) -> None:
        self._taken.append(job.job_id)
        self._state.unfit.pop(job.job_id, None)
        tenant_pass, need = bid.tier.charge(job), self._need(job)
        for length in bid.held:
            bid.tier.marks[length] = max(bid.tier.marks.get(length, tenant_pass), tenant_pass)
        bid.tier.remove(job)
        self._kv_tokens -= need
        if bid.share:
            bid.share = Room(bid.share.sequences - 1, bid.share.kv_tokens - need)
        self._lease(bid, job)

    def _lease(self, bid: Bid, job: Waiting) -> None:
        """Hold the job. A worker that serves one tier makes no choice between tiers, and charges none."""
        queue, tier_weight = (job.tier, job.length), bid.terms.weight if len(self._bids) > 1 else None
        self._state.leased[job.job_id] = Lease(queue, bid.tier.weight(job.tenant), tier_weight)
        if tier_weight is not None:
            bid.tier.pass_ += job.estimate / tier_weight
        self._count(queue)

    def _count(self, queue: Queue) -> None:
        for allowance in [*self._caps, *([self._level] if self._level else [])]:
            allowance.left -= queue in allowance.queues

    def _meet_others(self) -> None:
        """Leave to less loaded workers what is theirs; but take one, unless that has just happened."""
        load, now_ms = self._ask.load, self._now_ms
        peers = self._peers()
        open_ = [q for q in self._open_queues() if any(q in peer.queues for peer in peers)]
        shared = {queue: len(self._state.waiting(queue)) for queue in open_}
        waiting = levelling.takable(shared, [(cap.queues, cap.left) for cap in self._caps])
        if not waiting:
            return
        own = levelling.Peer(now_ms, load.in_flight, load.slots, self._ask.credit.sequences, self._ask.queues)
        mine = levelling.share(own, peers, waiting)
        before = self._state.workers.get(self._ask.worker)
        if mine < 1 and not (before and before.declines(now_ms)):
            mine = 1
        self._level, self._left_to_others = Allowance(frozenset(shared), mine), waiting - mine
        self._has_declined = mine < 1
        if self._has_declined:
            for bid in self._bids:
                self._narrow(bid)

    def _peers(self) -> list[levelling.Peer]:
        """Workers that were heard lately, and still had room then."""
        if self._ask.load.slots < 1:
            return []
        others = ((name, peer) for name, peer in self._state.workers.items() if name != self._ask.worker)
        return [p for _, p in others if p.free > 0 and self._now_ms - p.heard_ms <= levelling.HEARD_MS]

    def _open_queues(self) -> list[Queue]:
        return [(bid.name, length) for bid in self._bids for length in bid.open]

    def _tell_others(self) -> None:
        if self._level and self._level.left < 1 and self._left_to_others > 0:
            self._ask_again(levelling.AGAIN_MS)
        load, taken, workers = self._ask.load, len(self._taken), self._state.workers
        if load.slots < 1 or self._most < 1:
            return
        before = workers.get(self._ask.worker)
        took_ms = self._now_ms if taken else before.took_ms if before else 0
        for name in [n for n, peer in workers.items() if self._now_ms - peer.heard_ms > levelling.FORGET_MS]:
            del workers[name]
        free = 0 if self._parked else max(0, self._ask.credit.sequences - taken)
        workers[self._ask.worker] = levelling.Peer(
            self._now_ms, load.in_flight + taken, load.slots, free, self._ask.queues, took_ms, self._has_declined
        )

    def _ask_again(self, after_ms: float) -> None:
        self._again_ms = min(self._again_ms, math.ceil(after_ms))
