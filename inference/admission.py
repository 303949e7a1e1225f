"""Whether a queue takes more jobs: a plain cap on those that wait. Fails closed: no answer, no admission."""

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inference import broker, errors
from inference.estimates import Demand, Learned
from inference.limits import ModelLimits

MAX_RETRY_AFTER_SECONDS: Final = 120
"""Beyond this no promise: clients would not wait."""
DRAINING_RETRY_SECONDS: Final = 30.0
"""When to ask a draining queue again: no promise either."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Jobs that ask into one queue."""

    queue: str
    job_ids: Sequence[uuid.UUID]
    owner: str
    """Whose outputs they will resemble (`estimates.owner`)."""
    model: ModelLimits
    demands: Sequence[Demand]
    """What each of them asks for."""
    cap: int
    """Most jobs that may wait in the queue."""
    is_draining: bool = False
    """It takes no more."""


def admit(offer: Offer) -> Learned:
    """Reserve room for all jobs of the offer, or none. Returns what is known to estimate them by.

    Raises errors.Rejected; without Redis errors.Unavailable. What was reserved is published or withdrawn, else it
    lapses after a minute.
    """
    if offer.is_draining:
        raise draining(offer.queue)
    try:
        answer = broker.get_broker().admit(offer.queue, offer.job_ids, cap=offer.cap, owner=offer.owner)
    except broker.BrokerAway as error:
        raise errors.Unavailable("The queue cannot be reached; nothing was accepted. Try again.") from error
    if refusal := decide(offer, answer):
        raise refusal
    return answer.learned


def draining(queue: str) -> errors.Unavailable:
    """Return the refusal of a queue that an operator drains; nobody knows for how long."""
    message = f"queue {queue} is draining: it takes no more jobs until an operator resumes it"
    return errors.Unavailable(message, code="queue_draining", retry_after_seconds=DRAINING_RETRY_SECONDS)


def decide(offer: Offer, answer: broker.Admission) -> errors.Rejected | None:
    """Return the refusal that the caller reads, or None if the queue took the jobs."""
    if answer.accepted:
        return None
    message = (
        f"queue {offer.queue} takes at most {answer.cap} waiting jobs; {answer.waiting} wait, "
        f"{len(offer.job_ids)} more asked for"
    )
    return errors.Rejected(message, retry_after_seconds=retry_after(offer, answer.learned))


def retry_after(offer: Offer, learned: Learned) -> float:
    """Whole seconds until one engine has worked off as much as was asked for: then there is room for it."""
    seconds = sum(learned.seconds(offer.model, demand) for demand in offer.demands) / offer.model.max_num_seqs
    return float(min(MAX_RETRY_AFTER_SECONDS, max(1, math.ceil(seconds))))
