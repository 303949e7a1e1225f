"""How a worker stops: it claims nothing more, finishes what it runs up to a limit, gives the rest back, and ends.

Celery's own warm shutdown leaves the hub before the pool is done: pings go unanswered and acknowledgements wait.
So the signals are ours, and the hub runs on until the last job is settled.
"""

import logging
import os
import select
import signal
import threading
import time
from typing import Any, Final

from celery import bootsteps
from celery.worker import state as celery_state
from django.conf import settings

from workers.held import HELD
from workers.pool import EnginePool
from workers.settlement import SETTLER

logger = logging.getLogger(__name__)

state: Any = celery_state

GIVE_BACK_SECONDS: Final = 10.0
"""How long giving back may take before the process ends without it: leases do the rest."""
STEP_SECONDS: Final = 0.1
CLAIM_SECONDS: Final = 0.01
"""A claim that is under way takes about this long."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Drainer:
    """Stops one worker, once; a second request gives everything back at once. Thread-safe."""

    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer
        self.requests = 0
        self._begun = threading.Lock()

    def request(self) -> None:
        """Begin to drain, or hurry."""
        with self._begun:
            self.requests += 1
            if self.requests == 1:
                threading.Thread(target=self._run, name="drain", daemon=True).start()

    def _run(self) -> None:
        logger.info("draining", extra={"action": "drain_begun", "count": len(HELD)})
        self.shut()
        deadline = time.monotonic() + settings.DRAIN_SECONDS
        while self._is_claiming() or not HELD.wait_until_empty(seconds=STEP_SECONDS):
            if self.requests > 1 or time.monotonic() > deadline:
                self._give_back()
                break
        logger.info("drained", extra={"action": "drain_ended", "count": len(HELD)})
        state.should_stop = os.EX_OK
        _wake(self.consumer)

    def shut(self) -> None:
        """Claim nothing more; also after a reconnect in the middle of a drain."""
        pool, channel = self.consumer.pool, getattr(self.consumer.task_consumer, "channel", None)
        if isinstance(pool, EnginePool):
            pool.host.drain()
        elif channel is not None:
            channel.terms.is_open = False
        if channel is not None and self.consumer.hub is not None:
            self.consumer.hub.call_soon(channel.credit_changed)

    def _is_claiming(self) -> bool:
        """Whether a reply with claims may still come: they would have to be given back."""
        channel = getattr(self.consumer.task_consumer, "channel", None)
        if channel is None or not channel.is_claiming:
            return False
        time.sleep(CLAIM_SECONDS)
        return True

    def _give_back(self) -> None:
        if isinstance(self.consumer.pool, EnginePool):
            self.consumer.pool.host.give_back()
            HELD.wait_until_empty(seconds=GIVE_BACK_SECONDS)


class Drain(bootsteps.StartStopStep):
    """Takes SIGTERM and SIGINT over from Celery, in every worker that has a hub."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **kwargs: Any) -> None:
        self.drainer = Drainer(consumer)
        consumer.drainer = self.drainer
        self._is_listening = False
        super().__init__(consumer, **kwargs)

    def start(self, consumer: Any) -> None:
        """Listen from the first start on."""
        self.drainer.consumer = consumer
        if not self._is_listening and threading.current_thread() is threading.main_thread():
            listen(self.drainer)
            self._is_listening = True
        if self.drainer.requests:
            self.drainer.shut()

    def shutdown(self, _consumer: Any) -> None:
        """Give back the tasks that are left, and wait until the broker has heard of all that ended.

        A job that is left could not be given back in time. Its lease runs out: its row must move before its entry.
        """
        for token in HELD.tokens():
            if (claimed := HELD.get(token)) and claimed.body:
                SETTLER.release(token)
        if not SETTLER.flush(seconds=GIVE_BACK_SECONDS):
            logger.warning("the broker did not hear of all that ended", extra={"action": "settle_unfinished"})


def listen(drainer: Drainer) -> None:
    """Have signals reach a thread, whatever the main thread does: it may be blocked in a reconnect.

    The handlers do nothing; Python's C-level handler writes the signal's number to the pipe that the thread reads.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    threading.Thread(target=_obey, args=(drainer, reader), name="signals", daemon=True).start()


def _obey(drainer: Drainer, reader: int) -> None:
    while True:
        select.select([reader], [], [])
        for number in os.read(reader, 64):
            if number in SIGNALS:
                drainer.request()


def _wake(consumer: Any) -> None:
    if consumer.hub is not None:
        consumer.hub.call_soon(_nothing)


def _nothing() -> None:
    """Only the waking counts."""
