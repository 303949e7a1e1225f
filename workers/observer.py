"""Learns from finished calls what to expect of the next ones, and says what each call used.

Calls are noted where they end, in memory; `flush` takes them to the broker about once a second, from the thread
that looks after leases: nobody waits for it, and what is lost of it costs accuracy only.
"""

import collections
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from inference import estimates, routing
from inference.broker import Broker, LengthOf, Lessons
from inference.broker.types import Claimed
from inference.estimates import Call, Estimate, Output, Rates, Speed
from inference.lifecycle import Work
from inference.limits import Limits, ModelLimits
from workers.meter import Meter
from workers.outcomes import Completed, Failed, Outcome

MOST_CALLS: Final = 256
"""Learned from in one flush: the last ones, if there were more."""
MOST_TIMED: Final = 64
"""Of them for the rates."""
CUT: Final = "length"
"""The finish reason of an answer that `max_tokens` ended."""


class _Seen(NamedTuple):
    kind: LengthOf
    call: Call
    is_cut: bool


class Observer:
    """One worker's, of its one model. `note` and `used` on the event loop, `flush` from any one thread."""

    def __init__(self, model: ModelLimits, limits: Callable[[], Limits]) -> None:
        self._model = model
        self._limits = limits
        self._seen: collections.deque[_Seen] = collections.deque(maxlen=MOST_CALLS)
        self._rates = estimates.configured(model)

    def note(self, claimed: Claimed, work: Work, outcome: Outcome, meter: Meter) -> None:
        """Remember a call that ended well."""
        if not isinstance(outcome, Completed) or outcome.output_tokens is None:
            return
        prompt = claimed.prompt_tokens if outcome.prompt_tokens is None else outcome.prompt_tokens
        call = Call(prompt, outcome.output_tokens, meter.seconds, meter.first_token_seconds)
        owner = estimates.owner(api_key_id=work.api_key_id, tenant=claimed.tenant)
        kind = LengthOf(owner, routing.parse(claimed.queue).length)
        self._seen.append(_Seen(kind, call, outcome.finish_reason == CUT))

    def used(self, claimed: Claimed, outcome: Outcome | None, meter: Meter) -> float:
        """Service seconds that a claim used, by the rates that its estimate was made with.

        By tokens as far as they are known: the engine's counts, or what a stream brought before it ended. Else its
        time in the engine, and of that the estimate at most: how long an engine hung is nobody's use.
        """
        prompt, output = claimed.prompt_tokens, meter.chunks or None
        if isinstance(outcome, Completed):
            prompt = prompt if outcome.prompt_tokens is None else outcome.prompt_tokens
            output = output if outcome.output_tokens is None else outcome.output_tokens
        if output is None:
            return min(meter.seconds, claimed.estimate)
        estimate = Estimate(claimed.prompt_tokens, claimed.expected_tokens, claimed.estimate)
        return estimates.used_seconds(estimate, self._rates, prompt_tokens=prompt, output_tokens=output)

    def flush(self, broker: Broker) -> None:
        """Add what was noted to what is known, in two round trips. Raises BrokerAway, with that forgotten."""
        seen = [self._seen.popleft() for _ in range(len(self._seen))]
        if not seen:
            return
        model = self._limits().models.get(self._model.name, self._model)
        before = broker.lessons(model.name, list(dict.fromkeys(each.kind for each in seen)))
        after = taught(before, seen, model)
        broker.learn(before, after)
        self._rates = estimates.measured_or_configured(after.speed, model)


def used_tokens(claimed: Claimed, outcome: Outcome | None, meter: Meter) -> int | None:
    """Tokens of prompt and output that a claim used; None where nobody can tell how far its answer was. Pure."""
    if outcome is None:  # it never began
        return 0
    if isinstance(outcome, Completed):
        prompt = claimed.prompt_tokens if outcome.prompt_tokens is None else outcome.prompt_tokens
        output = (
            meter.chunks or claimed.expected_tokens if outcome.output_tokens is None else outcome.output_tokens
        )
        return prompt + output
    if meter.chunks or isinstance(outcome, Failed):
        return claimed.prompt_tokens + meter.chunks
    return None


def taught(before: Lessons, seen: Sequence[_Seen], model: ModelLimits) -> Lessons:
    """Return what is known after these calls. Pure."""
    outputs = dict(before.outputs)
    for kind, call, is_cut in seen:
        known = outputs.get(kind) or Output(model.default_output_tokens)
        outputs[kind] = known.after(call.output_tokens, is_cut=is_cut)
    calls = [each.call for each in seen[-MOST_TIMED:]]
    return replace(before, outputs=outputs, speed=_timed(before.speed, calls, estimates.configured(model)))


def _timed(speed: Speed | None, calls: Iterable[Call], configured: Rates) -> Speed:
    speed = speed or Speed()
    for call in calls:
        speed = speed.after(call, configured)
    return speed
