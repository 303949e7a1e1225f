"""On what terms a channel claims: the seam between the transport, which asks, and pools, which know their room."""

import os
import socket
from collections.abc import Mapping
from typing import Any, Final, Protocol

from inference.guards import Credit, TierTerms

MAX_PULL: Final = 64
"""Most jobs in one claim: a long script holds every other client of Redis up."""
UNBOUNDED: Final = 1 << 40
"""KV tokens of those who have no KV cache."""


class Terms(Protocol):
    """Asked before every claim, on the hub's thread."""

    @property
    def worker(self) -> str:
        """Who holds the leases."""

    def credit(self) -> Credit:
        """Return what may be claimed now."""

    def is_hungry(self, offered: Credit) -> bool:
        """Whether work may wait that did not fit `offered`: then more credit is worth asking again at once."""

    def tiers(self) -> Mapping[str, TierTerms]:
        """Return on what terms each tier is claimed."""


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

    def is_hungry(self, offered: Credit) -> bool:  # noqa: ARG002 (the protocol's)
        """Say no: every task fits."""
        return False

    def tiers(self) -> Mapping[str, TierTerms]:
        """Return none: no tiers."""
        return {}
