"""A worker as others see it: values that cross its threads. Pure."""

from dataclasses import dataclass, replace

from inference.limits import WorkerLimits
from inference.states import WorkerState


@dataclass(frozen=True, slots=True)
class Condition:
    """Where the worker is."""

    state: WorkerState
    detail: str = ""
    ready_at: float | None = None
    """Since when it is ready, by the monotonic clock; None while it is not."""
    kv_capacity_tokens: int = 0
    """Size of the engine's KV cache; 0 until it was ready once."""


def halted(condition: Condition, limits: WorkerLimits, *, in_flight: int) -> Condition:
    """Return the condition as others see it: a worker that is halted is not ready, though its engine is."""
    if condition.state is not WorkerState.READY:
        return condition
    if not limits.is_halted:
        return condition
    state = WorkerState.DRAINING if limits.is_draining else WorkerState.PAUSED
    return replace(condition, state=state, detail=_detail(limits, in_flight), ready_at=None)


def _detail(limits: WorkerLimits, in_flight: int) -> str:
    """Say how far it is; not by whom, since every tenant reads it."""
    if in_flight:
        return f"{in_flight} in flight"
    return "may be stopped" if limits.is_draining else ""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Its condition, and how busy it is."""

    condition: Condition
    slots: int
    in_flight: int
    kv_used_tokens: int
    """By the worker's own count: expected tokens of what is in flight."""
