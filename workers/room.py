"""What a worker has room for: its engine's capacity, what is in flight, and the limit tables, put together."""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from inference import guards, routing
from inference.broker.types import Claimed, Token
from inference.guards import NO_ROOM, Credit, Load, Room, TierTerms
from inference.limits import Limits, TierLimits
from workers import gate, leftovers
from workers.bounds import Bounds
from workers.config import WorkerConfig
from workers.pressure import Pressure
from workers.quarantine import Quarantine
from workers.readiness import Readiness
from workers.terms import Offer

_NO_LIMITS: Final = Limits()


class EngineRoom:
    """Counts what is in flight, and says what may be claimed beside it. Thread-safe where nothing else is said."""

    def __init__(
        self,
        config: WorkerConfig,
        limits: Callable[[], Limits],
        readiness: Readiness,
        *,
        on_room: Callable[[], None],
    ) -> None:
        """`limits` returns the same object while nothing changed; `on_room` is called as a job gives room back."""
        self._config = config
        self._limits = limits
        self._readiness = readiness
        self._on_room = on_room
        self._quarantine = Quarantine()
        self._alone: Token | None = None
        self._lock = threading.Lock()
        self._in_flight = gate.InFlight()
        self._pressure = Pressure()
        self._bounds = (_NO_LIMITS, Bounds())
        self._capacity = (readiness.capacity, readiness.capacity)
        self._parked: list[asyncio.Future[None]] = []

    # What may be claimed

    @property
    def is_open(self) -> bool:
        """Whether anything may begin. While an operator halts the worker, only what runs goes on."""
        return self._readiness.is_open and not self.bounds.is_halted

    @property
    def capacity(self) -> gate.Capacity:
        """The engine's, with the margin as it is set and learned now."""
        engine, bounds = self._readiness.capacity, self.bounds
        margin = engine.margin_tokens if bounds.margin_tokens is None else bounds.margin_tokens
        margin += self._pressure.extra_tokens(now=time.monotonic())
        if engine is not self._capacity[0] or margin != self._capacity[1].margin_tokens:
            self._capacity = (engine, replace(engine, margin_tokens=margin))  # asked at every turn of the hub
        return self._capacity[1]

    @property
    def bounds(self) -> Bounds:
        """What the tables say as they are now."""
        limits = self._limits()
        if limits is not self._bounds[0]:
            served = self._config.served_queues(limits)
            bounds = Bounds.of(limits, worker=self._config.node, model=self._config.model.name, served=served)
            self._bounds = (limits, bounds)
        return self._bounds[1]

    @property
    def load(self) -> gate.Load:
        """What is in flight."""
        with self._lock:
            return self._in_flight.load

    def credit(self) -> Credit:
        """Return what may be claimed now."""
        return self._credit(self.capacity, self.load)

    def offer(self) -> Offer:
        """Return all that bounds a claim now."""
        capacity, load, bounds = self.capacity, self.load, self.bounds
        return Offer(
            credit=self._credit(capacity, load),
            tiers={tier.name: _terms(tier, capacity, load) for tier in bounds.tiers},
            paused=bounds.paused,
            caps=bounds.caps,
            larger=bounds.larger(capacity.kv_tokens),
            whole_tokens=capacity.kv_tokens,
            load=Load(load.sequences, capacity.sequences),
        )

    def is_hungry(self, offered: Offer) -> bool:
        """Whether a claim that came back empty may have left work behind that only did not fit, or gathered."""
        shares = [terms.share for terms in offered.tiers.values() if terms.share]
        was_held = bool(offered.caps) or leftovers.may_have_gathered(offered, self.load.sequences)
        return was_held or gate.is_hungry(offered.credit, shares, self.capacity)

    def _credit(self, capacity: gate.Capacity, load: gate.Load) -> Credit:
        return gate.credit(
            capacity,
            load,
            is_open=self.is_open,
            reserve=self._reserve(capacity),
            reserve_tiers=self.bounds.reserve_tiers,
            alone_ms=self._quarantine.due_ms(now=time.monotonic()),
        )

    def _reserve(self, capacity: gate.Capacity) -> Room:
        if not self.bounds.reserve_tiers:
            return NO_ROOM
        return guards.reserve(Room(capacity.sequences, capacity.kv_tokens), self.bounds.reserve_share)

    # What is in flight

    def add(self, claimed: Claimed) -> None:
        """Count a claim from here on, unless it came while a job runs alone: `holds` says."""
        tier, tokens = routing.parse(claimed.queue).tier, claimed.kv_tokens + self.capacity.margin_tokens
        with self._lock:
            self._in_flight.add(
                claimed.token, tier, tokens, is_parked=claimed.is_parked, is_alone=claimed.is_alone
            )
            if claimed.is_alone:
                self._alone = claimed.token
                self._quarantine.begin(now=time.monotonic())

    def holds(self, token: Token) -> bool:
        """Whether it is counted."""
        with self._lock:
            return token in self._in_flight

    def leave(self, token: Token) -> None:
        """Give back the room of a job that the engine is done with: its end goes on record beside the next start.

        At most as many as the engine has sequences end so at a time. On the event loop.
        """
        with self._lock:
            gave_room = self._in_flight.leave(token, most_ending=self._readiness.capacity.sequences)
        if gave_room:
            self._room_came(token)

    def remove(self, token: Token) -> None:
        """Forget a job that is settled, and give its room back if it has not left. On the event loop."""
        with self._lock:
            gave_room = self._in_flight.remove(token)
        if gave_room:
            self._room_came(token)

    def note_preemptions(self, count: int) -> None:
        """Hear how often the engine preempted since its start."""
        self._pressure.note(count, self.capacity, now=time.monotonic())

    # What is parked, on the event loop

    async def until_it_fits(self, token: Token, *, is_wanted: Callable[[], bool]) -> None:
        """Return once a parked job fits, or the room is shut, or the job is not wanted any more.

        `look` has the last two asked for anew.
        """
        while is_wanted() and self.is_open and not self._starts(token):
            news = asyncio.get_running_loop().create_future()
            self._parked.append(news)
            await news

    def look(self) -> None:
        """Have those that are parked look whether it is their time."""
        parked, self._parked = self._parked, []
        for news in parked:
            if not news.done():
                news.set_result(None)

    def _room_came(self, token: Token) -> None:
        with self._lock:
            if token == self._alone:
                self._alone = None
                self._quarantine.end(now=time.monotonic())
        self.look()
        self._on_room()

    def _starts(self, token: Token) -> bool:
        capacity, tiers = self.capacity, self.bounds.reserve_tiers
        reserve = self._reserve(capacity)
        with self._lock:
            starts = gate.may_start(capacity, self._in_flight.load, reserve=reserve, reserve_tiers=tiers)
            if starts:
                self._in_flight.unpark(token)
        return starts


def _terms(tier: TierLimits, capacity: gate.Capacity, load: gate.Load) -> TierTerms:
    is_online = tier.max_share >= 1
    return TierTerms(
        weight=tier.weight,
        uses_reserve=tier.uses_reserve,
        share=None if is_online else gate.share(capacity, load.held_by((tier.name,)), tier.max_share),
        gather_jobs=tier.gather_jobs,
        gather_seconds=tier.gather_seconds,
    )
