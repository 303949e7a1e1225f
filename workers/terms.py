"""On what terms a channel claims: the seam between the transport, which asks, and pools, which know their room."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from django.conf import settings

from inference.broker import ClaimRequest
from inference.guards import ANY_SIZE, NO_LOAD, Cap, Credit, Load, TierTerms

MAX_PULL: Final = 64
"""Most jobs in one claim: a long script holds every other client of Redis up."""
IDLE_POLL_SECONDS: Final = 0.5
"""Longest wait for the bell. A claim follows it, by which an idle worker is heard well before `levelling.HEARD_MS`
are over, though a server ends a wait up to 0.1 s late."""
UNBOUNDED: Final = 1 << 40
"""KV tokens of those who have no KV cache."""


@dataclass(frozen=True, slots=True)
class Offer:
    """All that is said with one claim."""

    credit: Credit
    tiers: Mapping[str, TierTerms] = field(default_factory=dict)
    paused: frozenset[str] = frozenset()
    """Queues that nothing is taken of."""
    larger: frozenset[str] = frozenset()
    """Queues that a worker with more KV serves too."""
    whole_tokens: int = ANY_SIZE
    """The worker's whole KV cache."""
    caps: tuple[Cap, ...] = ()
    load: Load = NO_LOAD

    def request(self, queues: Sequence[str], *, worker: str) -> ClaimRequest:
        """Return the claim that says it."""
        return ClaimRequest(
            queues=tuple(queues),
            credit=self.credit,
            limit=MAX_PULL,
            worker=worker,
            lease_seconds=settings.LEASE_SECONDS,
            tiers=self.tiers,
            paused=self.paused,
            larger=self.larger,
            whole_tokens=self.whole_tokens,
            caps=self.caps,
            load=self.load,
        )


class Terms(Protocol):
    """Asked before every claim, on the hub's thread."""

    @property
    def worker(self) -> str:
        """Who holds the leases."""

    def credit(self) -> Credit:
        """Return what may be claimed now."""

    def offer(self) -> Offer:
        """Return the same, with all that bounds the claim."""

    def is_hungry(self, offered: Offer) -> bool:
        """Whether work may wait that did not fit what was offered: then more credit is worth asking at once."""


class PrefetchTerms:
    """Terms of Celery's own pools: as many messages as the prefetch count leaves."""

    def __init__(self, qos: Any, *, worker: str = "") -> None:
        self.worker = worker or f"{os.getpid()}@{socket.gethostname()}"
        self.is_open = True
        """Set to False by a drain."""
        self._qos = qos

    def credit(self) -> Credit:
        """Return the messages that the prefetch count still allows."""
        room = self._qos.can_consume_max_estimate()
        return Credit((MAX_PULL if room is None else room) if self.is_open else 0, UNBOUNDED)

    def offer(self) -> Offer:
        """Return the credit: nothing else bounds tasks."""
        return Offer(self.credit())

    def is_hungry(self, offered: Offer) -> bool:  # noqa: ARG002 (the protocol's)
        """Say no: every task fits."""
        return False
