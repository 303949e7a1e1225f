"""Celery's pool for jobs: one coroutine per job on one event loop; no process, thread or tracer per job."""

import collections
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from celery.concurrency import base as celery_base
from celery.worker import state as celery_state
from vine import promise

from inference import heap
from inference.states import WorkerState
from workers import bookkeeping, engines, envelope
from workers.config import WorkerConfig
from workers.execution import Abort
from workers.host import EngineHost
from workers.outcomes import Outcome
from workers.registrar import Registrar

logger = logging.getLogger(__name__)

base: Any = celery_base
state: Any = celery_state
"""Their stubs leave out what is used here; `tests/unit/test_celery_contract.py` holds it instead."""

EXIT_ENGINE_FAILED = 1
SWITCH_SECONDS: Final = 0.001
"""How long a thread may keep the others waiting. A job's way crosses event loop, hub and group commit, and
the loop is busy with output just when an engine's step ends jobs: Python's 5 ms would be lost at each crossing."""


class Handle:
    """What Celery's request keeps a weak reference to, to terminate it. Made by `EnginePool.on_apply`."""

    __slots__ = ("__weakref__", "_terminate")

    def __init__(self, terminate: Callable[[], None]) -> None:
        self._terminate = terminate

    def terminate(self, _signum: int | None = None) -> None:
        """Give the job back to its queue: Celery asks so in a cold shutdown; a cancel is `workers.controls`."""
        self._terminate()


class _Ended(NamedTuple):
    request: Any
    outcome: Outcome | None
    seconds: float


class EnginePool(base.BasePool):  # type: ignore[misc]
    """Runs claimed jobs on the engine that it owns. `bound_to` makes the class for one configuration."""

    signal_safe = False
    task_join_will_block = False
    body_can_be_buffer = True
    config: ClassVar[WorkerConfig]
    create_engine = staticmethod(engines.create)
    """A benchmark's pool has another."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_credit: Callable[[], None] = _nothing
        """Called on the hub's thread when the credit may have grown; the consumer's bootstep sets it."""
        self.on_limits: Callable[[], None] = _nothing
        """Likewise, when the limits changed."""
        self._hub: Any = None
        self._handles: dict[str, Handle] = {}
        self._ended: collections.deque[_Ended] = collections.deque()
        self._news = promise(self._on_news)  # one object: the hub's set of callbacks holds it once
        self._is_waking = False
        self._has_new_credit = False
        self._has_new_limits = False
        self.registrar = Registrar(self.config, lambda: self.host.vitals, on_limits=self._limits_changed)
        self.host = EngineHost(
            self.config,
            limits=lambda: self.registrar.limits,
            on_credit=self._credit_changed,
            on_state=self._state_changed,
            create=self.create_engine,
        )

    @classmethod
    def bound_to(cls, config: WorkerConfig) -> "type[EnginePool]":
        """Return the pool's class for one configuration: Celery makes the instance."""
        return type(cls.__name__, (cls,), {"config": config, "__module__": cls.__module__})

    # Celery's side

    def on_start(self) -> None:
        """Begin to load the engine. Celery goes on meanwhile: it answers pings before the engine is ready."""
        heap.spare_what_is_loaded()
        sys.setswitchinterval(SWITCH_SECONDS)
        self.host.start()
        self.registrar.start()

    def register_with_event_loop(self, loop: Any) -> None:
        """Know the hub, which wakes when a job ends."""
        self._hub = loop

    def on_apply(
        self,
        _target: Any,
        args: Any,
        _kwargs: Any = None,
        callback: Any = None,
        accept_callback: Any = None,
        **_: Any,
    ) -> Handle:
        """Run one job. `callback` is bound to Celery's request, whose books are closed at the end."""
        _, tag, headers, *_ = args
        claimed, request = envelope.claim_of(headers), callback.__self__
        handle = self._handles[tag] = Handle(lambda: self.host.abort(claimed.token, Abort.DRAIN))
        # At once, not when the row has moved: a reconnect forgets requests that were not accepted.
        accept_callback(os.getpid(), time.monotonic())
        self.host.submit(claimed, lambda outcome, seconds: self._end(request, outcome, seconds))
        return handle

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """Do nothing: the handle ends a job, and the process is nobody's to kill."""

    def on_stop(self) -> None:
        """Give back what runs, stop the engine, say goodbye to the registry."""
        self.host.stop()
        self.registrar.stop()

    on_terminate = on_stop

    def _get_info(self) -> dict[str, Any]:
        vitals, credit = self.host.vitals, self.host.room.credit()
        return {
            **super()._get_info(),
            "engine": str(self.config.engine.kind),
            "state": str(vitals.condition.state),
            "detail": vitals.condition.detail,
            "slots": vitals.slots,
            "in-flight": vitals.in_flight,
            "free-slots": credit.sequences,
            "kv-capacity-tokens": vitals.condition.kv_capacity_tokens,
            "kv-used-tokens": vitals.kv_used_tokens,
        }

    # From any thread to the hub's

    def _end(self, request: Any, outcome: Outcome | None, seconds: float) -> None:
        self._ended.append(_Ended(request, outcome, seconds))
        self._wake_hub()

    def _credit_changed(self) -> None:
        self._has_new_credit = True
        self._wake_hub()

    def _state_changed(self) -> None:
        self.registrar.wake()
        self._credit_changed()

    def _limits_changed(self) -> None:
        self._has_new_limits = True
        self.host.limits_changed()
        self._credit_changed()

    def _wake_hub(self) -> None:
        """Have the hub look, once for all that came before it does; a second wake-up in a race does no harm."""
        if self._hub is not None and not self._is_waking:
            self._is_waking = True
            self._hub.call_soon(self._news)

    def _on_news(self) -> None:
        self._is_waking = False  # first: what comes from here on wakes anew
        if self._has_new_credit:  # before the books, which nobody waits for
            self._has_new_credit = False
            self.on_credit()
        while self._ended:
            ended = self._ended.popleft()
            self._handles.pop(ended.request.id, None)
            bookkeeping.close(ended.request, ended.outcome, seconds=ended.seconds)
        if self._has_new_limits:
            self._has_new_limits = False
            self.on_limits()
        if self.host.vitals.condition.state is WorkerState.FAILED and state.should_stop is None:
            logger.critical("the engine cannot be loaded, the worker ends", extra={"action": "worker_failed"})
            state.should_stop = EXIT_ENGINE_FAILED


def _nothing() -> None:
    """Stand in until the consumer is there."""
