"""What a row must reach. Pure."""

import re
from dataclasses import dataclass
from typing import Final, Self

_GOAL: Final = re.compile(r"(?P<figure>[a-z0-9_]+) (?P<relation><=|>=) (?P<bound>\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure of a row and the bound that it must keep."""

    figure: str
    relation: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `ratio >= 3`. Raises ValueError."""
        found = _GOAL.fullmatch(text)
        if found is None:
            raise ValueError(f"not a goal: {text!r}; one reads `ratio >= 3`")
        return cls(found["figure"], found["relation"], float(found["bound"]))

    def is_met(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return value >= self.bound if self.relation == ">=" else value <= self.bound

    def __str__(self) -> str:
        return f"{self.relation} {self.bound:g}"
