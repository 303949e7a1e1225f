"""One claim from its start to its acknowledgement.

    start (commit) ─▶ engine ─▶ outcome ─▶ finish (commit) ─▶ ack or release

The engine is called only after the commit that moved the row to `running` under this claim, and the broker hears
of an end only after the commit that wrote it. A job that the engine has answered gives its room back at once, its
lease with the ack. Runs on the worker's event loop; never touches the database from it.
"""

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from django.db import Error, InterfaceError, OperationalError
from django.utils import timezone

from inference import bodies, broker, lifecycle, retries
from inference.answer import Answer
from inference.broker.types import Claimed
from inference.group_commit import GroupCommit
from inference.limits import Limits
from inference.states import FailureReason, JobStatus, ReleaseReason
from workers import answers, gate, outcomes, sse
from workers.bridge import Bridge
from workers.engine import Engine, EngineCall, EngineDown, EngineFault, EngineGone, EngineRefused
from workers.meter import Meter
from workers.observer import Observer, used_tokens
from workers.outcomes import Cancelled, Completed, Failed, Interrupted, Outcome
from workers.readiness import Readiness
from workers.relay import Pace, Relay
from workers.room import EngineRoom
from workers.settlement import Settler

logger = logging.getLogger(__name__)

BACKOFF_SECONDS: Final = (0.2, 5.0)
"""Between tries to write a result while the database is away; the lease is renewed meanwhile."""
DEFAULT_RUN_TIMEOUT_SECONDS: Final = 600.0
"""Of a job whose tier is gone."""


class Abort(enum.Enum):
    """Why a claim is ended from outside."""

    CANCELLED = enum.auto()
    LOST = enum.auto()
    """The lease is another's, or nobody's."""
    DRAIN = enum.auto()


_ENDS: Final[dict[Abort, Outcome]] = {
    Abort.CANCELLED: Cancelled(),
    Abort.LOST: Interrupted(ReleaseReason.LEASE_EXPIRED),
    Abort.DRAIN: Interrupted(ReleaseReason.DRAIN),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every execution of a worker uses."""

    worker: str
    engine: Engine
    readiness: Readiness
    room: EngineRoom
    commits: GroupCommit
    settler: Settler
    bridge: Bridge
    streams: broker.AsyncBroker
    observer: Observer
    pace: Pace
    limits: Callable[[], Limits]


Applying = Answer[lifecycle.Applied]
"""A change that has been asked for."""


def start_of(claimed: Claimed, *, worker: str) -> lifecycle.Start:
    """Return the change with which a claim begins."""
    return lifecycle.Start(claimed.token, worker, claimed.waited)


class Execution:
    """One claim. `run` it once; `abort` it from the same event loop at any time."""

    def __init__(self, claimed: Claimed, around: Surroundings, starting: Applying | None = None) -> None:
        """Take a claim; `starting` if its row is being moved already."""
        self.claimed = claimed
        self._token = claimed.token
        self._starting = starting
        self._ending: Applying | None = None
        self._around = around
        self._abort: Abort | None = None
        self._call: asyncio.Task[Outcome] | None = None
        self._completed: Completed | None = None
        self._meter = Meter()
        self._attempt = 0

    def abort(self, why: Abort) -> None:
        """End the engine's work on it, if it still works; a result that is already there is kept.

        Asked again, it cancels again: what the call awaits may have swallowed the first one.
        """
        if self._abort is None or why is Abort.LOST:
            self._abort = why
        if self._call:
            self._call.cancel()
        self._around.room.look()

    async def run(self) -> Outcome | None:
        """Do the whole way; None for a claim that was dropped because its row did not move."""
        if self.claimed.is_parked:
            await self._wait_for_room()
        is_shut = not (self._around.room.is_open and self._around.room.holds(self._token))
        if (is_shut or self._abort in {Abort.LOST, Abort.DRAIN}) and self._starting is None:
            return await self._leave()
        began = time.monotonic()
        start = start_of(self.claimed, worker=self._around.worker)
        started = await self._commit(start, self._starting)
        outcome: Outcome | None = None
        applied: lifecycle.Applied | None = started
        if started and started.work:
            self._around.settler.began(self.claimed, self._around.room.target_seconds(started.work.tier))
            await self._announce()
            outcome, applied = await self._finish(await self._work(started.work))
            self._around.observer.note(self.claimed, started.work, outcome, self._meter)
        if applied and applied.status is JobStatus.CANCELLED and outcome:
            outcome = Cancelled()
        # Logged while the broker is told, and after all jobs that ended with this one have asked for that.
        asyncio.get_running_loop().call_soon(self._note, outcome, time.monotonic() - began)
        await self._settle(applied, outcome)
        return outcome

    async def _wait_for_room(self) -> None:
        """Wait, with the row still queued, until the others leave the engine enough; see `docs/scheduling.md`."""
        room = self._around.room
        if gate.fits_ever(self.claimed.kv_tokens, room.capacity):
            await room.until_it_fits(self._token, is_wanted=lambda: self._abort is None)

    async def _leave(self) -> Outcome | None:
        """Give back what has not begun: the gate shut, or a job began to run alone, before this one could."""
        if self._abort is Abort.LOST:
            self._around.settler.abandon(self._token)
            return None
        released = self._around.settler.release(self._token, event=False, alone=self.claimed.is_alone)
        await self._around.bridge.wait(released)
        return Interrupted(ReleaseReason.DRAIN)

    async def _announce(self) -> None:
        """Tell those who follow the job that it runs; they learn it from its output too, should this fail."""
        if not self.claimed.watched:
            return
        try:
            await self._around.streams.append(self._token, [], kind=JobStatus.RUNNING)
        except broker.BrokerAway as error:
            logger.warning("a start was not announced: %s", error, extra=self._context("start_unannounced"))

    # The engine

    async def _work(self, work: lifecycle.Work) -> Outcome:
        self._attempt = work.attempt
        if retries.runs_alone(work.engine_crashes) and not self.claimed.is_alone:
            return Interrupted(ReleaseReason.RUNS_ALONE)
        capacity = self._around.readiness.capacity
        if not gate.fits_ever(self.claimed.kv_tokens, capacity):
            needs = f"The request needs {self.claimed.kv_tokens} tokens of KV cache"
            return Failed(FailureReason.BAD_REQUEST, f"{needs}; the engine has {capacity.kv_tokens}.")
        self._call = asyncio.create_task(self._call_engine(work))
        if self._abort:  # it came while the row was read
            self._call.cancel()
        try:
            return await self._call
        except asyncio.CancelledError:
            if self._abort is None:
                raise
            return self._completed or _ENDS[self._abort]  # the fence decides what a result is still worth
        finally:
            self._meter.stop()
            self._call = None

    async def _call_engine(self, work: lifecycle.Work) -> Outcome:
        tier = self._around.limits().tiers.get(work.tier)
        seconds = tier.run_timeout_seconds if tier else DEFAULT_RUN_TIMEOUT_SECONDS
        priority = tier.engine_priority if tier else 0
        try:
            async with asyncio.timeout(seconds):
                return await self._ask(work, priority)
        except TimeoutError:  # perhaps only while the end of a complete stream was passed on
            return self._completed or Failed(FailureReason.RUN_TIMEOUT, f"The job ran longer than {seconds:g} s.")
        except EngineRefused as refused:
            return Failed(FailureReason.BAD_REQUEST, answers.refusal(refused.body))
        except EngineGone as error:
            self._around.readiness.suspect()
            return outcomes.interrupted(error)
        except (EngineFault, ValueError, bodies.Missing) as fault:
            return Failed(outcomes.blamed(fault), str(fault))
        except Exception:  # ours: the job must end all the same
            logger.exception("a job could not be run", extra=self._context("execution_failed"))
            return Failed(FailureReason.ENGINE_ERROR, "The worker met an error.")

    async def _ask(self, work: lifecycle.Work, priority: int) -> Completed:
        if not self._around.readiness.has_engine:  # it fell while this waited for its turn: not under this job
            raise EngineDown("the engine fell before the job began")
        request = work.request or await asyncio.to_thread(bodies.read, self._token.job_id)
        self._meter.start()
        body, asks_usage = answers.with_usage(request) if work.streamed else (request.encode(), False)
        call = EngineCall(work.endpoint, body, str(self._token.job_id), priority, self.claimed.prompt_tokens)
        if work.streamed:
            return await self._stream(call, wants_usage=asks_usage)
        return self._answered(await self._around.engine.generate(call))

    def _answered(self, answer: bytes) -> Completed:
        self._meter.stop()
        self._completed = completed = answers.whole(answer)
        self._ending = self._around.commits.submit(outcomes.change(self._token, completed, self._meter))
        self._around.room.leave(self._token)  # only now: the start of the next is committed behind it
        return completed

    async def _stream(self, call: EngineCall, *, wants_usage: bool) -> Completed:
        events: list[bytes] = []
        first_token_at = None
        splitter = sse.Splitter()
        around = self._around
        relay = Relay(self._token, around.streams, around.pace, on_lost=lambda: self.abort(Abort.LOST))
        async with relay, contextlib.aclosing(around.engine.stream(call)) as pieces:
            async for piece in pieces:
                first_token_at = first_token_at or timezone.now()
                whole = splitter.feed(piece)
                self._meter.hear(len(whole))
                for event in whole:
                    events.append(event)
                    if wants_usage or not sse.is_usage_only(event):
                        relay.put(event)
            if not events or not sse.is_done(events[-1]):
                raise EngineGone("the stream ended before its end")
            self._meter.stop()
            self._around.room.leave(self._token)
            self._completed = answers.streamed(events, call.endpoint, first_token_at=first_token_at)
            await relay.finish()
        return self._completed

    # The row and the broker

    async def _finish(self, outcome: Outcome) -> tuple[Outcome, lifecycle.Applied | None]:
        try:
            return outcome, await self._commit(outcomes.change(self._token, outcome, self._meter), self._ending)
        except (Error, ValueError):  # not away: this very value is refused, and would be for ever
            logger.exception("a result could not be stored", extra=self._context("result_refused"))
            failed = Failed(FailureReason.ENGINE_ERROR, "The result could not be stored.")
            return failed, await self._commit(outcomes.change(self._token, failed, self._meter))

    async def _commit(self, change: lifecycle.Change, asked: Applying | None = None) -> lifecycle.Applied | None:
        """Have it committed, if that was not asked yet; None if the lease was lost while the database was away."""
        wait_seconds = BACKOFF_SECONDS[0]
        while True:
            try:
                return await self._around.bridge.wait(asked or self._around.commits.submit(change))
            except (OperationalError, InterfaceError) as error:
                asked = None
                logger.warning("the database is away: %s", error, extra=self._context("commit_retried"))
            if self._abort is Abort.LOST:
                return None
            await asyncio.sleep(wait_seconds)
            wait_seconds = min(2 * wait_seconds, BACKOFF_SECONDS[1])

    async def _settle(self, applied: lifecycle.Applied | None, outcome: Outcome | None) -> None:
        """Tell the broker where the row is now."""
        settler = self._around.settler
        if applied is None:
            settler.abandon(self._token)
        elif applied.status is JobStatus.QUEUED:
            backoff, alone = outcomes.backoff(outcome), retries.runs_alone(applied.engine_crashes)
            await self._around.bridge.wait(settler.release(self._token, backoff=backoff, alone=alone))
        else:
            status = applied.status or JobStatus.CANCELLED
            used = self._around.observer.used(self.claimed, outcome, self._meter)
            tokens = used_tokens(self.claimed, outcome, self._meter)
            acked = settler.ack(self._token, status=status, used=used, tokens=tokens, cost_nano=applied.cost_nano)
            await self._around.bridge.wait(acked)

    # The log

    def _note(self, outcome: Outcome | None, seconds: float) -> None:
        reason = "" if outcome is None or isinstance(outcome, Completed | Cancelled) else str(outcome.reason)
        logger.info(
            "job %s",
            "dropped: its row did not move" if outcome is None else type(outcome).__name__.lower(),
            extra={**self._context("job_ended"), "reason": reason, "seconds": round(seconds, 3)},
        )

    def _context(self, action: str) -> dict[str, object]:
        which = {"job_id": self._token.job_id, "claim_id": self._token.claim_id, "attempt": self._attempt}
        return {"action": action, "worker": self._around.worker, "queue": self.claimed.queue, **which}
