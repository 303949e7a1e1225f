"""How long a job will take an engine, and what it used: service seconds from tokens and rates. Pure.

Two things are learned from finished calls. The output to expect of a key, per model and length class: a running
quantile. And an engine's rates, per model: seconds by prompt tokens and output tokens, as one sequence sees them
under the load that there is. Both states are a few numbers, and what is lost of them costs only accuracy.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from inference.limits import ModelLimits

QUANTILE: Final = 0.75
"""Of a key's outputs, to expect. Above the median, since room in the KV cache is kept by it: outputs have a long
tail, whose mean lies near here, and the mean is what a batch of jobs needs."""
FIRST_STEP: Final = 3.0
LEAST_STEP: Final = 0.1
"""Steps of the logarithm. They shrink like 1 / samples to the least, which follows drift for ever."""
STEP_SAMPLES: Final = 2.0

MIN_CALLS: Final = 8
"""Rates of fewer calls are chance: the configured ones hold."""
MEMORY_CALLS: Final = 200.0
"""A call counts for 1 - 1 / this of what the next one counts for."""
MOST_SURPRISE: Final = 4.0
"""A call that took longer or shorter than expected by more than this factor counts as if by this factor."""
TIE: Final = 0.05
"""How strongly the ratio of the two rates is held to the configured one, which alone decides it where calls do not
tell prompt from output: if all have the same size."""
PREFILL_BOUNDS: Final = (1.0, 1e7)
DECODE_BOUNDS: Final = (0.1, 1e5)
"""Tokens per second that an engine could have."""
LEAST_SECONDS: Final = 1e-4
"""A call that claims to be shorter is taken for this."""


@dataclass(frozen=True, slots=True)
class Rates:
    """An engine's, for one sequence, in tokens per second."""

    prefill: float
    decode: float

    def seconds(self, prompt_tokens: float, output_tokens: float) -> float:
        """Service time of one job."""
        return prompt_tokens / self.prefill + output_tokens / self.decode


@dataclass(frozen=True, slots=True)
class Demand:
    """What a request asks for."""

    prompt_tokens: int
    max_tokens: int | None
    """Most output; None: as much as fits."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a finished call took of its engine."""

    prompt_tokens: int
    output_tokens: int
    seconds: float
    first_token_seconds: float | None = None
    """Of a stream."""


@dataclass(frozen=True, slots=True)
class Output:
    """Running quantile of one key's output tokens.

    Stochastic approximation (Robbins and Monro 1951) in the multiplicative form of Yazidi and Hammer (2017): up by
    QUANTILE of a step for a larger sample, down by the rest of it for a smaller one, and never past the sample.
    """

    tokens: float
    samples: int = 0

    def after(self, tokens: int, *, is_cut: bool) -> "Output":
        """Learn from an answer. One that `max_tokens` cut at fewer tokens than expected says nothing."""
        seen = float(max(1, tokens))
        if is_cut and seen <= self.tokens:
            return self
        step = max(LEAST_STEP, FIRST_STEP * STEP_SAMPLES / (self.samples + STEP_SAMPLES))
        if seen > self.tokens:
            moved = min(seen, self.tokens * math.exp(step * QUANTILE))
        else:
            moved = max(seen, self.tokens * math.exp(-step * (1 - QUANTILE)))
        return Output(moved, min(self.samples + 1, 1_000_000))


@dataclass(frozen=True, slots=True)
class Speed:
    """A model's rates as measured: sums of a decaying least squares fit of seconds to prompt and output tokens.

    Each observation weighs 1 / its seconds, since what disturbs a call grows with its length.
    """

    calls: float = 0.0
    """That count, the old ones for less."""
    prompt_prompt: float = 0.0
    prompt_output: float = 0.0
    output_output: float = 0.0
    prompt: float = 0.0
    output: float = 0.0

    def after(self, call: Call, configured: Rates) -> "Speed":
        """Learn from a call; one without tokens says nothing. A stream tells prefill from decode."""
        if call.prompt_tokens + call.output_tokens < 1 or not math.isfinite(call.seconds):
            return self
        known, expects = self._decayed(), self.rates(configured) if self.is_enough else None
        first = call.first_token_seconds
        if first is None or call.output_tokens < 2 or first >= call.seconds:
            return known._with(call.prompt_tokens, call.output_tokens, call.seconds, expects)
        known = known._with(call.prompt_tokens, 1, first, expects)
        return known._with(0, call.output_tokens - 1, call.seconds - first, expects)

    def rates(self, configured: Rates) -> Rates:
        """Return the rates measured, within what an engine could have; until enough is known, those configured."""
        return self._solve(configured) if self.is_enough else configured

    @property
    def is_enough(self) -> bool:
        """Whether enough calls were seen."""
        return self.calls >= MIN_CALLS - 0.5

    def _decayed(self) -> "Speed":
        kept = 1 - 1 / MEMORY_CALLS
        return Speed(
            self.calls * kept + 1,
            self.prompt_prompt * kept,
            self.prompt_output * kept,
            self.output_output * kept,
            self.prompt * kept,
            self.output * kept,
        )

    def _with(self, prompt: int, output: int, seconds: float, expects: Rates | None) -> "Speed":
        seconds = max(LEAST_SECONDS, seconds)
        if expects:
            expected = expects.seconds(prompt, output)
            seconds = min(max(seconds, expected / MOST_SURPRISE), expected * MOST_SURPRISE)
        return replace(
            self,
            prompt_prompt=self.prompt_prompt + prompt * prompt / seconds,
            prompt_output=self.prompt_output + prompt * output / seconds,
            output_output=self.output_output + output * output / seconds,
            prompt=self.prompt + prompt,
            output=self.output + output,
        )

    def _solve(self, configured: Rates) -> Rates:
        """Solve the normal equations for seconds per prompt token and per output token, both within bounds."""
        p, d = configured.prefill, configured.decode
        tie = TIE * _parallel(self.prompt_prompt / p**2, self.output_output / d**2)
        pp, oo = self.prompt_prompt + tie * p**2, self.output_output + tie * d**2
        po = self.prompt_output - tie * p * d
        determinant = pp * oo - po * po
        if not determinant > 0:
            return configured
        x = (self.prompt * oo - self.output * po) / determinant
        y = (self.output * pp - self.prompt * po) / determinant
        low_x, low_y = 1 / PREFILL_BOUNDS[1], 1 / DECODE_BOUNDS[1]
        if x < low_x:
            x, y = low_x, (self.output - low_x * po) / oo
        elif y < low_y:
            x, y = (self.prompt - low_y * po) / pp, low_y
        return Rates(_within(PREFILL_BOUNDS, x), _within(DECODE_BOUNDS, y))


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of a key's outputs in a length class, and of its model; None: nothing."""

    output: Output | None = None
    speed: Speed | None = None

    def rates(self, model: ModelLimits) -> Rates:
        """Return the rates to estimate with."""
        return measured_or_configured(self.speed, model)

    def expected_tokens(self, model: ModelLimits, demand: Demand) -> int:
        """Output tokens to keep room for: the key's quantile, else the model's default, as far as allowed."""
        expected = model.default_output_tokens if self.output is None else math.ceil(self.output.tokens)
        most = model.max_model_len - demand.prompt_tokens
        if demand.max_tokens is not None:
            most = min(most, demand.max_tokens)
        return max(1, min(expected, most))

    def seconds(self, model: ModelLimits, demand: Demand) -> float:
        """Service time to expect."""
        return self.rates(model).seconds(demand.prompt_tokens, self.expected_tokens(model, demand))


NOTHING: Final = Learned()


def configured(model: ModelLimits) -> Rates:
    """Return the rates that an admin set."""
    return Rates(model.prefill_tokens_per_second, model.decode_tokens_per_second)


def measured_or_configured(speed: Speed | None, model: ModelLimits) -> Rates:
    """Return the rates that hold."""
    return configured(model) if speed is None else speed.rates(configured(model))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What was made of a job when it was accepted."""

    prompt_tokens: int
    expected_tokens: int
    seconds: float


def used_seconds(estimate: Estimate, rates: Rates, *, prompt_tokens: int, output_tokens: int) -> float:
    """Return the service time of what a job really was, by the rates that its estimate was made with.

    `rates` are today's: only their ratio counts, so that a job which brought what was expected used its estimate.
    """
    expected = rates.seconds(estimate.prompt_tokens, estimate.expected_tokens)
    return estimate.seconds * rates.seconds(prompt_tokens, output_tokens) / expected


def owner(*, api_key_id: str | None, tenant: str) -> str:
    """Name those whose outputs are alike: a key by its public part, or a tenant's users without one."""
    return f"tenant={tenant}" if api_key_id is None else f"key={api_key_id.partition('.')[0]}"


def _parallel(one: float, other: float) -> float:
    """Return about the smaller of two: of what is known little, little decides."""
    return one * other / (one + other) if one + other > 0 else 0.0


def _within(bounds: tuple[float, float], seconds_per_token: float) -> float:
    low, high = bounds
    return min(high, max(low, 1 / seconds_per_token if seconds_per_token > 0 else high))
