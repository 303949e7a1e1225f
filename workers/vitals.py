"""A worker as others see it: values that cross its threads. Pure."""

from dataclasses import dataclass

from inference.states import WorkerState


@dataclass(frozen=True, slots=True)
class Condition:
    """Where the worker is."""

    state: WorkerState
    detail: str = ""
    ready_at: float | None = None
    """Unix time since when it is ready; None while it is not."""
    kv_capacity_tokens: int = 0
    """Size of the engine's KV cache; 0 until it was ready once."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Its condition, and how busy it is."""

    condition: Condition
    slots: int
    in_flight: int
    kv_used_tokens: int
    """By the worker's own count: expected tokens of what is in flight."""
