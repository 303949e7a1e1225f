"""Why a job waits, how many go before it, and when it may start. Pure: plain facts in, a sentence and numbers out.

The order is decided at the claim (`docs/scheduling.md`), so what is said here is how things stand now: who comes
next with a smaller pass goes first. Within a tenant the position is exact, across tenants and tiers an estimate.
"""

from inference.waiting.facts import CapUse, Engine, Place, Queue, Reason, Waiting
from inference.waiting.order import ahead_of_other_tiers
from inference.waiting.pace import Pace
from inference.waiting.reasons import at_worker, decide

__all__ = [
    "CapUse",
    "Engine",
    "Pace",
    "Place",
    "Queue",
    "Reason",
    "Waiting",
    "ahead_of_other_tiers",
    "at_worker",
    "decide",
]
