"""How one attempt at a job can end: a closed set, and the change of the row that each asks for. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from inference import bodies, lifecycle, retries
from inference.broker.types import Token
from inference.states import FailureReason, ReleaseReason
from workers.engine import EngineDown, EngineGone
from workers.meter import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """The engine answered."""

    result: str = field(repr=False)
    """Its whole answer, as JSON text."""
    finish_reason: str
    prompt_tokens: int | None
    output_tokens: int | None
    """As the engine counted; None if it did not tell."""
    first_token_at: datetime | None = None
    """Of a stream."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It ended for good."""

    reason: FailureReason
    message: str = field(repr=False)
    """What the client may read."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody cancelled it: its row says so already."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """It goes back to its queue."""

    reason: ReleaseReason


Outcome = Completed | Failed | Cancelled | Interrupted


def blamed(fault: Exception) -> FailureReason:
    """Return why a job failed that the engine was not asked for, or answered wrongly."""
    return FailureReason.BODY_MISSING if isinstance(fault, bodies.Missing) else FailureReason.ENGINE_ERROR


def interrupted(error: EngineGone) -> Interrupted:
    """Return why the job goes back; one that did not begin had no part in it, and is not counted as there."""
    is_down = isinstance(error, EngineDown)
    return Interrupted(ReleaseReason.ENGINE_UNREACHABLE if is_down else ReleaseReason.ENGINE_CRASH)


def backoff(outcome: Outcome | None) -> retries.Backoff | None:
    """Return how long the job is to be kept from the claims, if it goes back to its queue."""
    return retries.RULES[outcome.reason].backoff if isinstance(outcome, Interrupted) else None


def change(token: Token, outcome: Outcome, meter: Meter) -> lifecycle.Change:
    """Return what the row is asked to do; it refuses unless this claim holds it. `meter` says what it used."""
    match outcome:
        case Completed():
            return lifecycle.Succeed(
                token=token,
                result=outcome.result,
                prompt_tokens=outcome.prompt_tokens,
                output_tokens=outcome.output_tokens,
                finish_reason=outcome.finish_reason,
                first_token_at=outcome.first_token_at,
                engine_seconds=meter.seconds,
            )
        case Failed():
            return lifecycle.Fail(token, outcome.reason, outcome.message, meter.chunks, meter.seconds)
        case Interrupted():
            return lifecycle.Release(token, outcome.reason)
        case Cancelled():
            return lifecycle.Account(token, meter.chunks, meter.seconds)
