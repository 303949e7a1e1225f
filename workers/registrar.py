"""Keeps registry and limits in step with the worker, from a thread with a database connection of its own."""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db import Error, connection

from inference import clock, fleet, snapshot
from inference.limits import Limits, Rival
from inference.states import WorkerState
from workers.config import WorkerConfig
from workers.vitals import Vitals

logger = logging.getLogger(__name__)

LIMITS_SECONDS: Final = 0.5
"""Between two reads: an admin's edit acts in the workers within a second."""
REPORT_SECONDS: Final = 2.0
"""Between two reports while nothing changes."""
STOP_SECONDS: Final = 5.0


class Registrar:
    """Reports the worker to the registry, and holds the limits as they were a second ago at most."""

    def __init__(
        self, config: WorkerConfig, vitals: Callable[[], Vitals], *, on_limits: Callable[[], None]
    ) -> None:
        """`on_limits` is called on the registrar's thread when they changed."""
        self._config = config
        self._rivals = self._find_rivals()
        self.limits: Limits = replace(snapshot.limits(), rivals=self._rivals)
        """With the model's other workers. Replaced whole, and only if they changed; any thread may read it."""
        self._on_limits = on_limits
        self._vitals = vitals
        self._started_at = time.monotonic()
        self._reported: tuple[float, WorkerState | None] = (0.0, None)
        self._news = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="registrar", daemon=True)

    def start(self) -> None:
        """Report from now on."""
        self._thread.start()

    def wake(self) -> None:
        """Say that the state changed: it is reported at once."""
        self._news.set()

    def stop(self) -> None:
        """Report once more, and end."""
        self._is_stopping = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._is_stopping:
            try:
                self._read_limits()
                self._report_if_due()
            except Exception as error:  # the worker goes on without; the registry shows it as stale
                connection.close()
                is_away = isinstance(error, Error)
                logger.warning(
                    "the worker was not reported: %s",
                    error,
                    exc_info=not is_away,
                    extra={"action": "report_failed"},
                )
            self._news.wait(LIMITS_SECONDS)
            self._news.clear()
        self._say_goodbye()

    def _read_limits(self) -> None:
        limits = replace(snapshot.limits(max_age_seconds=LIMITS_SECONDS / 2), rivals=self._rivals)
        if limits != self.limits:
            self.limits = limits
            self._on_limits()

    def _report_if_due(self) -> None:
        vitals, (last_at, last_state) = self._vitals(), self._reported
        state, age = vitals.condition.state, time.monotonic() - last_at
        if state is last_state and age < REPORT_SECONDS:
            return
        fleet.report(self._report(vitals))
        self._reported = (time.monotonic(), state)
        self._rivals = self._find_rivals()

    def _find_rivals(self) -> tuple[Rival, ...]:
        return fleet.rivals(self._config.model.name, but=self._config.node)

    def _say_goodbye(self) -> None:
        try:
            fleet.report(self._report(self._vitals()))
        except Error as error:
            logger.warning("the registry is away: %s", error, extra={"action": "report_failed"})
        finally:
            connection.close()

    def _report(self, vitals: Vitals) -> fleet.WorkerReport:
        config, condition, now = self._config, vitals.condition, clock.now()
        return fleet.WorkerReport(
            name=config.node,
            model=config.model.name,
            engine=config.engine.kind,
            device=config.engine.device,
            serve=config.serve,
            host=config.host,
            pid=os.getpid(),
            state=condition.state,
            state_detail=condition.detail,
            slots=vitals.slots,
            in_flight=vitals.in_flight,
            kv_capacity_tokens=condition.kv_capacity_tokens,
            kv_used_tokens=vitals.kv_used_tokens,
            started_at=_moment(self._started_at, now),
            ready_at=None if condition.ready_at is None else self._ready_since(_moment(condition.ready_at, now)),
        )

    def _ready_since(self, loaded_at: datetime) -> datetime:
        """Return since when it takes work: ready anew after a halt, since start deadlines count from there on."""
        resumed_at = self.limits.of_worker(self._config.node).resumed_at
        return loaded_at if resumed_at is None else max(loaded_at, datetime.fromtimestamp(resumed_at, UTC))


def _moment(monotonic: float, now: datetime) -> datetime:
    """Return when that was, by the clock that shows `now`: made anew for each report, should that clock be set."""
    return now - timedelta(seconds=time.monotonic() - monotonic)
