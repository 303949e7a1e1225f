"""Verbs on what was learned from finished calls; what it means is in `inference.estimates`.

Each state is one small string that expires when nobody learns any more. Writers compute outside and write only
what nobody changed meanwhile: what is lost so, or with Redis, costs accuracy and nothing else.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final, NamedTuple

from inference.broker import base, keys, scripts
from inference.estimates import Learned, Output, Speed

KEPT_SECONDS: Final = 7 * 24 * 3600
"""What is not learned from for so long is forgotten."""

STATES_PER_SCRIPT: Final = 100
"""A long script holds everyone up."""


class LengthOf(NamedTuple):
    """Whose outputs are taken to be alike: an owner's (`estimates.owner`), in one length class."""

    owner: str
    length: str


@dataclass(frozen=True, slots=True)
class Lessons:
    """What is known of one model."""

    model: str
    speed: Speed | None
    outputs: Mapping[LengthOf, Output | None]
    raw: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """As it was read, by key less the prefix."""


class EstimateVerbs(base.Verbs):
    """What workers ask when they learn, and pages when they show it; submissions get theirs with `admit`."""

    def lessons(self, model: str, classes: Sequence[LengthOf]) -> Lessons:
        """Read what is known of a model and of its outputs in these classes."""
        names = [keys.speed(model), *(keys.output(c.owner, model, c.length) for c in classes)]
        speed, *outputs = found = self._read(names)
        read = dict(zip(classes, map(parse_output, outputs), strict=True))
        return Lessons(model, parse_speed(speed), read, dict(zip(names, found, strict=True)))

    def learn(self, before: Lessons, after: Lessons) -> int:
        """Write what is new in `after`, where it still is as in `before`. Says how many states were written."""
        new: list[tuple[scripts.Argument, ...]] = [
            (name, before.raw.get(name, b""), state) for name, state in _states(after).items()
        ]
        chunks = (new[i : i + STATES_PER_SCRIPT] for i in range(0, len(new), STATES_PER_SCRIPT))
        return sum(self._call("learn", KEPT_SECONDS * 1000, *itertools.chain(*chunk)) for chunk in chunks)

    def speeds(self, models: Sequence[str]) -> dict[str, Speed | None]:
        """Return what was measured of each model."""
        found = self._read([keys.speed(model) for model in models]) if models else []
        return {model: parse_speed(raw) for model, raw in zip(models, found, strict=True)}

    def _read(self, names: Sequence[str]) -> list[bytes]:
        found: Any = self.client.mget([self.prefix + name for name in names])
        return [value or b"" for value in found]


def parse_learned(output: bytes, speed: bytes) -> Learned:
    """Read what `admit` answers."""
    return Learned(parse_output(output), parse_speed(speed))


def parse_output(raw: bytes) -> Output | None:
    """Read one state; None if there is none, or another version's."""
    try:
        tokens, samples = raw.split()
        return Output(float(tokens), int(samples))
    except ValueError:
        return None


@functools.lru_cache(maxsize=64)  # it changes once a second, and every submission reads it
def parse_speed(raw: bytes) -> Speed | None:
    """Read one state; None if there is none, or another version's."""
    try:
        calls, prompt_prompt, prompt_output, output_output, prompt, output = map(float, raw.split())
        return Speed(calls, prompt_prompt, prompt_output, output_output, prompt, output)
    except ValueError:
        return None


def _states(lessons: Lessons) -> dict[str, str]:
    states = {keys.output(c.owner, lessons.model, c.length): o for c, o in lessons.outputs.items() if o}
    texts = {name: f"{output.tokens:.6g} {output.samples}" for name, output in states.items()}
    if lessons.speed:
        texts[keys.speed(lessons.model)] = " ".join(f"{value:.9g}" for value in astuple(lessons.speed))
    return texts
