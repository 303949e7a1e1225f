"""What the limit tables say of one worker's claims: tiers, the reserve, what is paused or capped. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from inference import routing
from inference.guards import ANY_SIZE, Cap
from inference.limits import Limits, TierLimits


@dataclass(frozen=True, slots=True)
class Bounds:
    """Worked out once for each snapshot of the limits."""

    is_halted: bool = False
    """Whether an operator paused or drains the worker: it claims nothing."""
    tiers: tuple[TierLimits, ...] = ()
    """Those that the worker serves."""
    reserve_tiers: frozenset[str] = frozenset()
    """Of them, those that use the reserve. None: there is nobody to reserve anything for."""
    reserve_share: float = 0.0
    margin_tokens: int | None = None
    """Of a job; None for a model that is not enabled any more."""
    paused: frozenset[str] = frozenset()
    """Queues served that nothing is taken of."""
    caps: tuple[Cap, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """By queue that other workers serve too: the most KV tokens that one of them has."""

    def larger(self, kv_tokens: int) -> frozenset[str]:
        """Return the queues that a worker serves too which has more KV tokens, or may turn out to."""
        return frozenset(queue for queue, size in self.sizes.items() if size > kv_tokens)

    @classmethod
    def of(cls, limits: Limits, *, worker: str, model: str, served: Sequence[str]) -> Self:
        """Read them for a `worker` that serves the queues `served` of `model`."""
        names = {routing.parse(queue).tier for queue in served}
        tiers = tuple(tier for tier in limits.tiers.values() if tier.name in names)
        row = limits.models.get(model)
        return cls(
            is_halted=limits.of_worker(worker).is_halted,
            tiers=tiers,
            reserve_tiers=frozenset(tier.name for tier in tiers if tier.uses_reserve),
            reserve_share=row.reserve_share if row else 0.0,
            margin_tokens=row.kv_margin_tokens if row else None,
            paused=frozenset(queue for queue in served if limits.of_queue(queue).is_paused),
            caps=tuple(_caps(limits, model, frozenset(served))),
            sizes=_sizes(limits, served),
        )


def _sizes(limits: Limits, served: Sequence[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for rival in limits.rivals:
        for queue in routing.served(served, model=rival.model, patterns=rival.serve):
            size = ANY_SIZE if rival.kv_tokens is None else rival.kv_tokens
            sizes[queue] = max(sizes.get(queue, 0), size)
    return sizes


def _caps(limits: Limits, model: str, served: frozenset[str]) -> list[Cap]:
    """Return the caps that bind a served queue: each over all queues that it counts, served here or not."""
    names = [name for name in map(routing.parse, limits.queues()) if name.model == model]
    row = limits.models.get(model)
    bounds = [(row.max_in_flight if row else None, [str(name) for name in names])]
    bounds += [(t.max_in_flight, [str(n) for n in names if n.tier == t.name]) for t in limits.tiers.values()]
    bounds += [(c.max_in_flight, [str(n) for n in names if n.length == c.name]) for c in limits.lengths.values()]
    bounds += [(limits.of_queue(queue).max_in_flight, [queue]) for queue in sorted(served)]
    return [Cap(tuple(queues), jobs) for jobs, queues in bounds if jobs is not None and served & set(queues)]
