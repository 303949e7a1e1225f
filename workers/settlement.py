"""Tells the broker how claims ended, from a thread of its own, until the broker has heard it.

An acknowledgement must survive a reconnect and a Redis that is briefly away: one that is lost makes finished work
run again. It must not hold the hub up either, which answers pings meanwhile. So none of Celery's connections
carries it.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from inference import broker, charges, clock
from inference.answer import Answer
from inference.broker.types import Claimed, Token
from inference.retries import Backoff
from inference.states import JobStatus
from workers.held import HELD, Held

logger = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = (0.05, 2.0)
"""First and longest wait between two tries."""
MAX_TRIES: Final = 5
"""Of what no time will heal: a script that breaks on this very entry, or a bug."""
MAX_ACKS: Final = 64
"""In one call: a long script holds every other client of Redis up."""
TASK_DONE: Final = JobStatus.SUCCEEDED
"""What ends a Celery task that is not a job: nobody watches it."""


class _Asked(NamedTuple):
    token: Token | None
    """None: nothing ends with it."""
    verb: Callable[[], bool] | None
    """None: it is an ack."""
    answer: Answer[bool]
    status: str | None = None
    """Of an ack: those that wait go together, in one call."""
    used: float | None = None
    tokens: int | None = None
    cost_nano: int = 0
    """Likewise."""


class Settler:
    """Acks and releases, in order. The claim stays held, and so renewed, until the broker has answered."""

    def __init__(self, held: Held = HELD, connect: Callable[[], broker.Broker] = broker.get_broker) -> None:
        self._held = held
        self._connect = connect
        self._asked: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self._ahead: _Asked | None = None
        """Taken from the queue, and not an ack."""
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def ack(
        self,
        token: Token,
        *,
        status: str,
        used: float | None = None,
        tokens: int | None = None,
        cost_nano: int = 0,
    ) -> Answer[bool]:
        """Forget a finished job. The answer is False if the claim was not ours any more. Thread-safe."""
        return self._put(_Asked(token, None, Answer(), status, used, tokens, cost_nano))

    def release(
        self, token: Token, *, event: bool = True, backoff: Backoff | None = None, alone: bool = False
    ) -> Answer[bool]:
        """Put a job back into its queue. The answer is False if the claim was not ours any more. Thread-safe."""

        def release() -> bool:
            return self._connect().release(token, event=event, backoff=backoff, alone=alone)

        return self._put(_Asked(token, release, Answer()))

    def began(self, claimed: Claimed, target_seconds: float | None) -> None:
        """Count a job that was parked as started, before its end is told; others are by claims. Thread-safe."""
        if claimed.is_parked:
            self._put(_Asked(None, lambda: self._connect().began(claimed.token, target_seconds), Answer()))

    def abandon(self, token: Token) -> None:
        """Hold a claim no more that turned out to be another's."""
        self._held.drop(token)

    def flush(self, *, seconds: float) -> bool:
        """Wait until all that was asked for is done; False if that takes longer."""
        done = self._put(_Asked(None, lambda: True, Answer()))
        try:
            return done.result(seconds)
        except TimeoutError:
            return False

    def _put(self, asked: _Asked) -> Answer[bool]:
        self._asked.put(asked)
        with self._start:  # made on first use: a process that only publishes needs no thread
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="settler", daemon=True)
                self._thread.start()
        return asked.answer

    def _run(self) -> None:
        while True:
            batch = self._next_batch()
            for asked, was_ours in zip(batch, self._insist(batch), strict=True):
                if asked.token:
                    self._held.drop(asked.token)
                asked.answer.give(was_ours)

    def _next_batch(self) -> list[_Asked]:
        """Wait for what is next; behind an ack, take the acks that follow it too."""
        batch = [self._ahead or self._asked.get()]
        self._ahead = None
        while batch[-1].status is not None and len(batch) < MAX_ACKS and not self._asked.empty():
            asked = self._asked.get()
            if asked.status is None:
                self._ahead = asked
                break
            batch.append(asked)
        return batch

    def _settle(self, batch: list[_Asked]) -> list[bool]:
        month = broker.text_of(charges.day_of(clock.reckoned()))
        acks = [
            broker.Ending(each.token, each.status, each.used, each.tokens, each.cost_nano, month)
            for each in batch
            if each.token and each.status is not None
        ]
        return [batch[0].verb()] if batch[0].verb else self._connect().ack_many(acks)

    def _insist(self, batch: list[_Asked]) -> list[bool]:
        wait_seconds, hopeless = BACKOFF_SECONDS[0], 0
        while True:
            try:
                return self._settle(batch)
            except Exception as error:  # a bug included: it must not end the thread, and is in the log every time
                hopeless = 0 if broker.may_heal(error) else hopeless + 1
                if hopeless == MAX_TRIES:
                    return self._give_up(batch, error)
                logger.warning(
                    "a claim could not be settled, trying again: %r",
                    error,
                    extra={"action": "settle_retried", "seconds": wait_seconds},
                )
                time.sleep(wait_seconds)
                wait_seconds = min(2 * wait_seconds, BACKOFF_SECONDS[1])

    def _give_up(self, batch: list[_Asked], error: Exception) -> list[bool]:
        """Try the others of the batch alone; leave a single claim to its lease, after which its row decides."""
        if len(batch) > 1:
            return [was_ours for asked in batch for was_ours in self._insist([asked])]
        token = batch[0].token
        extra = {
            "action": "settle_given_up",
            **({"job_id": token.job_id, "claim_id": token.claim_id} if token else {}),
        }
        logger.error("a claim cannot be settled and is left to its lease: %r", error, extra=extra)
        return [False]


SETTLER: Final = Settler()
"""The process's own."""
