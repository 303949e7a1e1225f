"""Queue names and length classes: the only place that builds or parses `<model>.<tier>.<length>`. Pure."""

import fnmatch
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

CONTROL_QUEUE: Final = "control"
"""Celery tasks that are not jobs: maintenance and, later, webhooks and batches."""
ONCE_HEADER: Final = "once"
"""Header of a Celery task that is sent again and again: while one is queued or runs, another is not queued."""


class LengthBound(Protocol):
    """A length class as far as routing needs it."""

    @property
    def name(self) -> str:
        """The class's name."""

    @property
    def max_prompt_tokens(self) -> int | None:
        """Longest prompt of the class in tokens; None is unbounded."""


@dataclass(frozen=True, slots=True)
class QueueName:
    """The parts of a queue's name."""

    model: str
    tier: str
    length: str

    def __str__(self) -> str:
        return f"{self.model}.{self.tier}.{self.length}"


@functools.lru_cache(maxsize=1024)
def parse(name: str) -> QueueName:
    """Split a queue's name. Raises ValueError if it has not three parts (a model's name may hold dots)."""
    model, tier, length = name.rsplit(".", 2)
    return QueueName(model, tier, length)


def is_plain(name: str) -> bool:
    """Whether a queue holds Celery tasks that are not jobs: its name has no three parts."""
    return name.count(".") < 2


def length_class(prompt_tokens: int, classes: Sequence[LengthBound]) -> str:
    """Name of the narrowest class that holds `prompt_tokens`. Raises ValueError if none does."""
    fitting = [c for c in classes if c.max_prompt_tokens is None or prompt_tokens <= c.max_prompt_tokens]
    if not fitting:
        raise ValueError(f"no length class holds {prompt_tokens} prompt tokens")
    narrowest = min(fitting, key=lambda c: float("inf") if c.max_prompt_tokens is None else c.max_prompt_tokens)
    return narrowest.name


def served(queues: Iterable[str], *, model: str, patterns: Sequence[str]) -> list[str]:
    """Those queues of `model` that match any of the shell-style `patterns` (as `*.realtime.*`), sorted."""
    return sorted(
        name
        for name in queues
        if parse(name).model == model and any(fnmatch.fnmatchcase(name, p) for p in patterns)
    )
