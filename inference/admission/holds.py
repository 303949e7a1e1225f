"""Calls that a full queue took on hold: what they are told if they did not start."""

import logging
from dataclasses import dataclass, replace

from inference import broker, errors
from inference.admission import refusals
from inference.admission.terms import Refusal

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hold:
    """On what terms a job is on hold."""

    refusal: Refusal
    """What its queue would have refused it for."""
    seconds: float
    """It starts within that time, or is refused."""
    ticket: str
    """By which the request is known again if it comes back (see `Asked`)."""
    tenant: str
    service_seconds: float
    """Of one such job, over the slots of an engine: how fast the queue should move."""


def refused(hold: Hold) -> errors.Rejected:
    """Return what the caller reads whose job did not start; it has a turn to come back, as those refused have."""
    told = refusals.error(replace(hold.refusal, retry_ms=_turn_ms(hold)), fallback_seconds=hold.seconds)
    told.message += f"; the request was on hold for {hold.seconds:g} s and did not start"
    return told


def _turn_ms(hold: Hold) -> int | None:
    """Return None without Redis: then as long as the hold was is as good a time as any."""
    drain_per_ms, jobs = 1 / max(1.0, hold.service_seconds * 1000), hold.refusal.asked
    queue, ticket, tenant = hold.refusal.name, hold.ticket, hold.tenant
    try:
        return broker.get_broker().turn(queue, ticket, tenant, jobs=jobs, drain_per_ms=drain_per_ms)
    except broker.BrokerAway:
        logger.warning("No turn given to a call that was on hold", extra={"action": "turn_not_given"})
        return None
