"""How much a worker may still take: credit in sequences and KV tokens. Pure.

A worker pulls only what its engine has room for, and never ahead: a job that waits inside a worker is a second
queue that nobody sees and nobody can reorder. The price is the round trip between the end of one job and the start
of the next, milliseconds against seconds of generation.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one engine holds at a time."""

    sequences: int
    kv_tokens: int
    """Size of the KV cache as the engine tells it."""
    margin_tokens: int
    """Kept free per job above its expected tokens, since an expectation can be too low."""
    largest_job_tokens: int
    """Prompt plus output that a job of the model may have at most."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is in flight: by the worker's own count, since the engine's gauges lag by seconds."""

    sequences: int = 0
    kv_tokens: int = 0
    """Prompt, expected output and margin of every job from its claim to its acknowledgement."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What the worker may claim now."""

    sequences: int
    kv_tokens: int
    margin_tokens: int = 0
    """Counted on top of each job's own tokens."""

    @property
    def is_spent(self) -> bool:
        """Whether asking for a job makes no sense."""
        return self.sequences < 1 or self.kv_tokens < 1


NONE: Final = Credit(0, 0)


def credit(capacity: Capacity, load: Load, *, is_open: bool) -> Credit:
    """Return what fits beside `load`; nothing while the gate is shut.

    An idle engine offers itself to a job of any size the model allows: one that it can never hold must come out of
    the queue to be failed, or it would block those behind it for ever.
    """
    if not is_open:
        return NONE
    sequences = max(0, capacity.sequences - load.sequences)
    free = max(0, capacity.kv_tokens - load.kv_tokens)
    if load.sequences == 0:
        free = max(free, capacity.largest_job_tokens + capacity.margin_tokens)
    return Credit(sequences, free, capacity.margin_tokens) if free else Credit(sequences, 0)


def is_hungry(offered: Credit, capacity: Capacity) -> bool:
    """Whether a claim that came back empty may have left work behind that only did not fit `offered`."""
    return offered.kv_tokens < capacity.largest_job_tokens + capacity.margin_tokens


def fits_ever(kv_tokens: int, capacity: Capacity) -> bool:
    """Whether the engine could hold a job of `kv_tokens` if it held nothing else."""
    return kv_tokens <= capacity.kv_tokens


class InFlight:
    """The jobs that a worker took and has not acknowledged. Not locked: its owner sees to that."""

    def __init__(self) -> None:
        self._tokens: dict[Hashable, int] = {}
        self._sum = 0

    def add(self, job: Hashable, kv_tokens: int) -> None:
        """Count a job with its margin; counting it again changes nothing."""
        if job not in self._tokens:
            self._tokens[job] = kv_tokens
            self._sum += kv_tokens

    def remove(self, job: Hashable) -> None:
        """Stop counting a job; one that is not counted changes nothing."""
        self._sum -= self._tokens.pop(job, 0)

    @property
    def load(self) -> Load:
        """The sum of all."""
        return Load(len(self._tokens), self._sum)
