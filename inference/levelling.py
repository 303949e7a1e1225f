"""How a burst spreads: what one claim leaves to less loaded workers. Pure; see `docs/scheduling.md`.

`inference/broker/lua/levelling.lua` computes the same.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

Queue = tuple[str, str]
"""Tier and length."""

HEARD_MS: Final = 1_100
"""A worker that did not claim for so long holds nobody back. An idle one asks every half second."""
FORGET_MS: Final = 60_000
AGAIN_MS: Final = 25
"""Who left something to others may have one more after so long: they may be slow, or serve only some of it."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A worker as its last claim told it."""

    heard_ms: int
    in_flight: int
    """With what that claim took."""
    slots: int
    free: int
    """Sequences that it could still have taken."""
    queues: frozenset[Queue]
    """That it serves."""
    took_ms: int = 0
    """Its last claim that took something."""
    has_declined: bool = False
    """Whether its last claim left everything to others."""

    def declines(self, now_ms: int) -> bool:
        """Whether this worker, which has its part, leaves the rest alone: it took that a moment ago.

        Else it takes one: it may have been woken for a job that nobody else was.
        """
        is_next = self.has_declined or self.took_ms == self.heard_ms
        return is_next and now_ms - self.took_ms < AGAIN_MS


def takable(waiting: Mapping[Queue, int], caps: Iterable[tuple[Collection[Queue], int]]) -> int:
    """Return how many of what waits, by queue, the strictest of the caps in flight lets anybody take.

    Each cap has its queues, and how many more of them may run.
    """
    everything = sum(waiting.values())
    covered = ((sum(waiting.get(queue, 0) for queue in queues), left) for queues, left in caps)
    return min([everything, *(everything - max(0, jobs - max(0, left)) for jobs, left in covered)])


def share(own: Peer, peers: Iterable[Peer], waiting: int) -> int:
    """Return how many of `waiting` jobs are `own`'s, if all are filled up to one level of occupancy.

    Whole numbers all the way, so that the script finds the same.
    """
    workers = [own, *peers]
    most = max(worker.slots for worker in workers)
    low, high = 0, 2 * most
    while low < high:
        level = (low + high) // 2
        if sum(_room(worker, level, most) for worker in workers) >= waiting:
            high = level
        else:
            low = level + 1
    return _room(own, low, most)


def _room(worker: Peer, level: int, most: int) -> int:
    """Return what `worker` takes until `level / most` of its slots are full."""
    return max(0, min(worker.free, level * worker.slots // most - worker.in_flight))
