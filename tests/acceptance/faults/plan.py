"""Which faults a seed stands for. Pure."""

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

COUPLED: Final = 0.25
"""Share of rounds in which two faults meet."""
HOLD_SECONDS: Final = (0.5, 5.0)
"""How long a fault lasts: from much less than a lease of 2 s to more than two."""


class Fault(NamedTuple):
    """One thing to go wrong."""

    kind: str
    target: str

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class Round(NamedTuple):
    """What goes wrong together."""

    faults: tuple[Fault, ...]
    hold_seconds: float

    def __str__(self) -> str:
        return f"{' and '.join(map(str, self.faults))} for {self.hold_seconds:.1f} s"


def rounds(seed: int, catalogue: Sequence[Fault], count: int) -> list[Round]:
    """`count` faults in rounds of one or two; the same ones for the same seed and catalogue.

    Kinds are dealt like cards: each comes up once before any comes up again. A target has one fault at a time.
    """
    dice = random.Random(seed)
    deck, dealt, left = list[str](), list[Round](), count
    kinds = sorted({fault.kind for fault in catalogue})
    while left:
        chosen: list[Fault] = []
        for _ in range(2 if left > 1 and dice.random() < COUPLED else 1):
            deck = deck or dice.sample(kinds, len(kinds))
            chosen += _one(dice, deck.pop(), catalogue, chosen)
        left -= len(chosen)
        dealt.append(Round(tuple(chosen), dice.uniform(*HOLD_SECONDS)))
    return dealt


def _one(dice: random.Random, kind: str, catalogue: Sequence[Fault], chosen: Sequence[Fault]) -> list[Fault]:
    taken = {_seat(fault.target) for fault in chosen}
    open_to = [fault for fault in catalogue if fault.kind == kind and _seat(fault.target) not in taken]
    return [dice.choice(open_to)] if open_to else []


def _seat(target: str) -> str:
    """An engine falls with its worker."""
    return target.replace("engine", "worker")
