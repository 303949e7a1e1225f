"""Whether a queue takes more jobs: a plain cap on those that wait. Fails closed: no answer, no admission."""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inference import broker, errors

MAX_RETRY_AFTER_SECONDS: Final = 120
"""Beyond this no promise: clients would not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Jobs that ask into one queue."""

    queue: str
    job_ids: Sequence[uuid.UUID]
    seconds: float
    """Expected service time of all of them together."""
    slots: int
    """Sequences that one engine runs at once."""
    cap: int
    """Most jobs that may wait in the queue."""


def admit(offer: Offer) -> None:
    """Reserve room for all jobs of the offer, or none. Raises errors.Rejected; without Redis errors.Unavailable.

    What was reserved is published or withdrawn, else it lapses after a minute.
    """
    try:
        answer = broker.get_broker().admit(offer.queue, offer.job_ids, cap=offer.cap)
    except broker.BrokerAway as error:
        raise errors.Unavailable("The queue cannot be reached; nothing was accepted. Try again.") from error
    if refusal := decide(offer, answer):
        raise refusal


def decide(offer: Offer, answer: broker.Admission) -> errors.Rejected | None:
    """Return the refusal that the caller reads, or None if the queue took the jobs."""
    if answer.accepted:
        return None
    message = (
        f"queue {offer.queue} takes at most {answer.cap} waiting jobs; {answer.waiting} wait, "
        f"{len(offer.job_ids)} more asked for"
    )
    return errors.Rejected(message, retry_after_seconds=retry_after(offer))


def retry_after(offer: Offer) -> float:
    """Whole seconds until one engine has worked off as much as was asked for: then there is room for it."""
    return float(min(MAX_RETRY_AFTER_SECONDS, max(1, math.ceil(offer.seconds / offer.slots))))
