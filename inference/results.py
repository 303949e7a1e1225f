"""How what happens to a job reaches the web process, and in it the request, that waits for it.

A worker appends a job's output and its end to the mailbox of each process that waits: one Redis stream a process,
read by one task, whatever the number of jobs. The job's own stream is read only to catch up: by a client that
connects or comes back, and for a job of which nothing was heard for a while, so that a client is answered even if
Redis lost the mailbox, the watch or the event. The row has the last word.
"""

import asyncio
import contextlib
import logging
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from typing import Final

from django.db import InterfaceError, OperationalError

from inference import broker, executor
from inference.broker import order
from inference.broker.types import Event
from inference.models import Job
from inference.states import TERMINAL

logger = logging.getLogger(__name__)

START: Final = "0-0"
"""The id before the first event of every job."""

BLOCK_MS: Final = 5_000
SILENCE_SECONDS: Final = 5.0
"""A job not heard of for so long is looked up: two calls to Redis, and its row among others in one query."""
BACKOFF_SECONDS: Final = (0.05, 2.0)
"""First and longest pause between two attempts to reach Redis."""
WATCH_SECONDS: Final = 3_600
MAX_EVENTS: Final = 1_000
"""Kept for a reader that is slow. What comes beyond is read again from the job's stream, which holds 20,000."""


CatchUp = Callable[[Collection["Inbox"]], Awaitable[None]]


class Inbox:
    """One job's events for one reader: in order, each once, whichever way they came."""

    def __init__(self, job_id: uuid.UUID, *, after: str = START, catch_up: CatchUp | None = None) -> None:
        """`catch_up` looks up what was left out since the reader was slow."""
        self.job_id = job_id
        self.is_behind = False
        """Events were left out, and all that come are until they have been looked up."""
        self._catch_up = catch_up
        self.heard_at = time.monotonic()
        self._last = (order(after), "")
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._held: list[Event] | None = None

    @property
    def is_held(self) -> bool:
        """Whether earlier events are being looked up."""
        return self._held is not None

    def hold(self) -> None:
        """Keep what arrives until `release`: earlier events are being looked up, and would come too late."""
        self._held = []

    def release(self, missed: Sequence[Event] = (), *, is_all: bool = True) -> None:
        """Take in the events that were missed, and behind all of them those that arrived meanwhile."""
        held, self._held = self._held or [], None
        self.is_behind = False
        for event in missed:
            self.put(event)
        self.is_behind = self.is_behind or not is_all
        for event in held:
            self.put(event)
        self.is_behind = self.is_behind or len(held) >= MAX_EVENTS

    def put(self, event: Event) -> None:
        """Take an event in, unless it, or a later one, was taken in before, or too many wait for the reader."""
        if self._held is not None:
            if len(self._held) < MAX_EVENTS:
                self._held.append(event)
            return
        if self.is_behind:
            return
        place = (order(event.id), event.kind)
        # Events of a job without a stream bear the millisecond as their id: two kinds may share one.
        if place[0] < self._last[0] or place == self._last:
            return
        if self._events.qsize() >= MAX_EVENTS:
            self.is_behind = True
            return
        self._last = place
        self.heard_at = time.monotonic()
        self._events.put_nowait(event)

    @property
    def after(self) -> str:
        """Id of the newest event taken in."""
        return "{}-{}".format(*self._last[0])

    async def get(self) -> list[Event]:
        """Wait for events and return all that are there, at least one."""
        if self.is_behind and self._events.empty() and self._catch_up is not None:
            with contextlib.suppress(broker.BrokerAway, OperationalError, InterfaceError):  # the sweep tries again
                await self._catch_up([self])
        return [await self._events.get(), *self.get_nowait()]

    def get_nowait(self) -> list[Event]:
        """Return all events that are there, perhaps none."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]


class Mailbox:
    """What one event loop hears from all workers. Use it on that loop only; `mailbox()` returns it."""

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex
        self._inboxes: dict[uuid.UUID, set[Inbox]] = {}
        self._broker = broker.new_async_broker()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._sweep())]

    @contextlib.contextmanager
    def listen(self, job_id: uuid.UUID, *, after: str = START) -> Iterator[Inbox]:
        """Collect what is heard of a job from now on. Enter it before the job is submitted or watched."""
        inbox = Inbox(job_id, after=after, catch_up=self.catch_up)
        self._inboxes.setdefault(job_id, set()).add(inbox)
        try:
            yield inbox
        finally:
            self._inboxes[job_id].discard(inbox)
            if not self._inboxes[job_id]:
                del self._inboxes[job_id]

    async def catch_up(self, inboxes: Collection[Inbox]) -> None:
        """Have the jobs' events sent here (again); take in those missed. Raises BrokerAway and django.db.Error."""
        behind = [inbox for inbox in inboxes if not inbox.is_held]
        for inbox in behind:
            inbox.hold()
        missed: list[list[Event]] | None = None
        try:
            missed = await executor.run(_missed, self.name, [(inbox.job_id, inbox.after) for inbox in behind])
        finally:
            for i, inbox in enumerate(behind):
                inbox.heard_at = time.monotonic()
                if missed is None:
                    inbox.release(is_all=not inbox.is_behind)
                else:
                    inbox.release(missed[i], is_all=len(missed[i]) < MAX_EVENTS)

    async def _read(self) -> None:
        """Deliver what arrives, for ever. The name is new, so the mailbox is read from its beginning."""
        cursor, pause = START, BACKOFF_SECONDS[0]
        while True:
            before = cursor
            try:
                cursor, events = await self._broker.read_mailbox(self.name, after=cursor, block_ms=BLOCK_MS)
            except broker.BrokerAway:
                logger.warning("the mailbox cannot be read", extra={"action": "mailbox_away", "seconds": pause})
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACKOFF_SECONDS[1])
                continue
            pause = BACKOFF_SECONDS[0]
            await self._make_up_for_lost(before, len(events))
            for event in events:
                for inbox in self._inboxes.get(event.job_id, ()):
                    inbox.put(event)

    async def _make_up_for_lost(self, cursor: str, count: int) -> None:
        """Look everything up if the mailbox was full and dropped what came after the cursor."""
        with contextlib.suppress(broker.BrokerAway, OperationalError, InterfaceError):  # the sweep tries again
            if count < broker.MAIL_PAGE or not await self._broker.has_lost_mail(self.name, after=cursor):
                return
            logger.warning("the mailbox was full: all is looked up", extra={"action": "mailbox_overrun"})
            inboxes = [inbox for inboxes in self._inboxes.values() for inbox in inboxes]
            for inbox in inboxes:
                inbox.is_behind = True
            await self.catch_up(inboxes)

    async def _sweep(self) -> None:
        """Catch up with what has been silent, for ever."""
        while True:
            await asyncio.sleep(SILENCE_SECONDS / 2)
            silent_since = time.monotonic() - SILENCE_SECONDS
            silent = [i for inboxes in self._inboxes.values() for i in inboxes if i.heard_at < silent_since]
            try:
                await self.catch_up(silent)
            except Exception as error:  # the next sweep tries again
                is_away = isinstance(error, broker.BrokerAway | OperationalError | InterfaceError)
                logger.warning(
                    "silent jobs cannot be looked up: %s",
                    " ".join(str(error).split()) or type(error).__name__,
                    exc_info=not is_away,
                    extra={"action": "sweep_failed"},
                )


_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """Return the running event loop's mailbox; its first call starts it."""
    loop = asyncio.get_running_loop()
    if loop not in _mailboxes:
        _mailboxes[loop] = Mailbox()
    return _mailboxes[loop]


@contextlib.asynccontextmanager
async def follow(job_id: uuid.UUID, *, after: str = START) -> AsyncIterator[Inbox]:
    """Give the job's events later than `after`: past ones are there, others come; the last is a terminal one.

    A reader that comes back with the id it saw last misses nothing as long as the job's stream is kept (ten
    minutes after its end); later it gets the terminal status alone. Raises BrokerAway and django.db.Error.
    """
    box = mailbox()
    with box.listen(job_id, after=after) as inbox:
        await box.catch_up([inbox])
        yield inbox


def _missed(mailbox_name: str, asked: Sequence[tuple[uuid.UUID, str]]) -> list[list[Event]]:
    """Have the jobs watched, and read each one's events after the id given with it."""
    redis = broker.get_broker()
    for job_id, _ in asked:
        redis.watch(job_id, mailbox_name, seconds=WATCH_SECONDS)
    # Rows after the watch: a job that ends from here on is heard of. Streams after the rows: one that has ended
    # has written all of its stream.
    ended = _ended([job_id for job_id, _ in asked])
    missed = [_events(job_id, after, ended.get(job_id)) for job_id, after in asked]
    over = [events[-1].job_id for events in missed if events and events[-1].kind in TERMINAL]
    for job_id in set(over) - redis.held(
        over
    ):  # of one that is still held the end will be told, and end the watch
        redis.unwatch(job_id, mailbox_name)
    return missed


def _events(job_id: uuid.UUID, after: str, ended: Job | None) -> list[Event]:
    """Return a job's events after an id: the first MAX_EVENTS, if there are so many; a GAP where some are lost.

    The row decides whether it has ended: the stream may lack the end, or hold one of before a retry by hand.
    """
    events = broker.get_broker().stream(job_id, after=after, count=MAX_EVENTS)
    last_end = max((i for i, event in enumerate(events) if event.kind in TERMINAL), default=None)
    if last_end is not None:
        ended = ended or _ended([job_id]).get(job_id)
        return events[: last_end + 1] if ended else events[last_end + 1 :]
    if ended and len(events) < MAX_EVENTS:
        events.append(_terminal(ended, after=events[-1].id if events else after))
    return events


def _ended(job_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Job]:
    rows = Job.objects.filter(id__in=job_ids, status__in=[s.value for s in TERMINAL])
    return {job.pk: job for job in rows.only("status", "claim_id", "finished_at")}


def _terminal(job: Job, *, after: str) -> Event:
    """Return the event that the stream should have ended with; the job's own clock says when."""
    finished_ms = int(job.finished_at.timestamp() * 1000) if job.finished_at else 0
    last_ms, last_sequence = order(after)
    event_id = f"{finished_ms}-0" if finished_ms > last_ms else f"{last_ms}-{last_sequence + 1}"
    return Event(event_id, job.pk, job.status, job.claim_id, b"")
