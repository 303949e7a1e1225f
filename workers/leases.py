"""Keeps the leases of everything this process holds, and rescues what others let go.

Two threads, neither of them the hub's, which may be stalled: one renews, and talks to Redis alone; one reaps and
restores, and may wait for the database. Both run in every worker, whatever its pool.
"""

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from celery import bootsteps
from celery.worker import state as celery_state
from django.conf import settings
from django.db import Error, connection

from inference import broker, maintenance
from inference.broker.types import Claimed, Token
from inference.models import Job
from inference.states import JobStatus
from workers.execution import Abort
from workers.held import HELD
from workers.pool import EnginePool
from workers.settlement import SETTLER

logger = logging.getLogger(__name__)

state: Any = celery_state

RENEWALS_PER_LEASE: Final = 4
RETRY_SECONDS: Final = 0.5
"""After a renewal that failed: sooner than usual, since the lease runs."""


class LeaseKeeper(bootsteps.StartStopStep):
    """Starts the threads with the first connection; they outlive every reconnect."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        self._keeper: Keeper | None = None
        super().__init__(consumer, **kwargs)

    def start(self, consumer: Any) -> None:
        """Keep from now on."""
        if self._keeper is None:
            self._keeper = Keeper(consumer.pool, worker=consumer.hostname)
            self._keeper.start()
            release_what_is_forgotten(consumer)


def release_what_is_forgotten(consumer: Any) -> None:
    """Put countdown tasks back when Celery drops them.

    At a reconnect it forgets those that it only scheduled, in the belief that the broker delivers them again. Ours
    would not while this process holds them.
    """
    forget = consumer.on_close

    def on_close() -> None:
        tags = [request.message.delivery_tag for request in list(state.scheduled_requests)]
        forget()
        for token in map(Token.parse, tags):
            SETTLER.release(token)

    consumer.on_close = on_close


class Keeper:
    """The threads."""

    def __init__(self, pool: Any, *, worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._lease_seconds: float = settings.LEASE_SECONDS
        # A pool of connections of its own: nothing else can use them up.
        self._broker = broker.Broker(broker.connect(settings.REDIS_URL), prefix=settings.BROKER_PREFIX)
        self._lost: queue.SimpleQueue[frozenset[Token]] = queue.SimpleQueue()
        self._doubted: set[Token] = set()
        """Lost at the last look. The first look may have met a claim between its end and our hearing of it."""

    def start(self) -> None:
        """Start renewing and reaping."""
        for target, name in ((self._renew_always, "lease-keeper"), (self._rescue_always, "reaper")):
            threading.Thread(target=target, name=name, daemon=True).start()

    def _renew_always(self) -> None:
        wait_seconds = self._lease_seconds / RENEWALS_PER_LEASE
        while True:
            began = time.monotonic()
            try:
                self.renew()
            except Exception as error:  # whatever it is: without this thread every lease would run out
                _note("leases could not be renewed", error, "renew_failed")
                time.sleep(min(RETRY_SECONDS, wait_seconds))
            else:
                time.sleep(max(0.0, wait_seconds - (time.monotonic() - began)))

    def renew(self) -> None:
        """Renew everything held; hand on what was lost or cancelled. Raises BrokerAway."""
        renewal = self._broker.renew(HELD.tokens(), lease_seconds=self._lease_seconds)
        for token in renewal.cancelled:
            self._abort(token, Abort.CANCELLED)
        if renewal.lost:
            self._lost.put(renewal.lost)

    def _rescue_always(self) -> None:
        while True:
            try:
                self._restore_lost(wait_seconds=min(1.0, self._lease_seconds / RENEWALS_PER_LEASE))
                maintenance.reap()
                self._learn()
            except Exception as error:  # whatever it is: without this thread nothing is restored
                _note("leases could not be looked after", error, "reap_failed")
                connection.close()

    def _learn(self) -> None:
        """Take what finished jobs taught to where submissions find it. Raises BrokerAway."""
        if isinstance(self._pool, EnginePool):
            self._pool.host.observer.flush(self._broker)

    def _restore_lost(self, *, wait_seconds: float) -> None:
        with contextlib.suppress(queue.Empty):
            self.restore(self._lost.get(timeout=wait_seconds))

    def restore(self, lost: Iterable[Token]) -> None:
        """Write leases anew that Redis forgot; end what is another's. Raises django.db.Error, BrokerAway."""
        claims = [claimed for token in lost if (claimed := HELD.get(token))]
        ours = _still_ours(claims)
        doubted, self._doubted = self._doubted, set()
        for claimed in claims:
            is_certain = claimed.token in doubted
            if claimed.token in ours or (claimed.body and is_certain):
                self._restore(claimed)
            elif is_certain:
                self._give_up(claimed)
            else:
                self._doubted.add(claimed.token)

    def _restore(self, claimed: Claimed) -> None:
        if self._broker.restore(claimed, worker=self._worker, lease_seconds=self._lease_seconds):
            logger.warning("a lost lease was restored", extra={"action": "lease_restored", **_ids(claimed)})
        else:
            self._give_up(claimed)

    def _give_up(self, claimed: Claimed) -> None:
        if HELD.get(claimed.token):
            logger.warning("a lease was lost", extra={"action": "lease_lost", **_ids(claimed)})
            self._abort(claimed.token, Abort.LOST)

    def _abort(self, token: Token, why: Abort) -> None:
        if isinstance(self._pool, EnginePool):
            self._pool.host.abort(token, why)


def _still_ours(claims: list[Claimed]) -> set[Token]:
    """Those whose row still names their claim, or does not name one yet."""
    ids = [claimed.token.job_id for claimed in claims if not claimed.body]
    rows = Job.objects.filter(id__in=ids)
    named = {job_id: (status, claim) for job_id, status, claim in rows.values_list("id", "status", "claim_id")}
    return {
        claimed.token
        for claimed in claims
        if named.get(claimed.token.job_id)
        in {(JobStatus.RUNNING, claimed.token.claim_id), (JobStatus.QUEUED, None)}
    }


def _note(what: str, error: Exception, action: str) -> None:
    """Log what the next try may get over: with a traceback, unless it is only Redis or the database being away."""
    is_expected = isinstance(error, Error | broker.BrokerAway)
    logger.warning("%s: %s", what, error, exc_info=not is_expected, extra={"action": action})


def _ids(claimed: Claimed) -> dict[str, object]:
    return {"job_id": claimed.token.job_id, "claim_id": claimed.token.claim_id, "queue": claimed.queue}
