"""What `selectors` returns: the rows that pages, API, metrics and Flower show."""

from dataclasses import dataclass
from datetime import datetime

from inference import waiting
from inference.objectives import Objective
from inference.states import WorkerState
from inference.watermarks import Watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue now."""

    queue: str
    model: str
    tier: str
    length: str
    jobs: int
    """Backlog: admitted, not started."""
    tokens: int
    """Prompt and expected output tokens of the backlog."""
    backlog_seconds: float
    """Age of the oldest waiting job; 0 if none waits, or the queue is paused."""
    leases: int
    """Jobs held by workers."""
    cap: int
    """Most jobs that may wait; 0 for the control queue, which has no cap."""
    bytes: int = 0
    """Of the requests in the backlog."""
    own_cap: int | None = None
    """Most jobs that may wait, set by an admin for this queue alone; None: as its tier."""
    on_hold: int = 0
    """Of the backlog, taken beyond the caps for a while."""
    spilled: int = 0
    """Jobs kept out of it while it is full; not in the backlog."""
    watermark: Watermark = Watermark.NONE
    """The highest that jobs, tokens or bytes have reached of what may wait."""
    capacity: int | None = None
    """Jobs that its live workers start within the tier's max wait; None: that has no bound."""
    claims_per_second: float = 0.0
    """Over the last half minute: how fast it drains."""
    objective: Objective | None = None
    """Its tier's, and how its own jobs keep it; None for the control queue."""
    is_paused: bool = False
    is_draining: bool = False
    halted_by: str = ""
    """Who paused, drained or resumed it last; empty for who is no operator."""
    waiting_reason: str = ""
    """What holds its first job now, one of `waiting.Reason`; empty if no job waits."""
    waiting_detail: str = ""
    expected_wait_seconds: float | None = None
    """Of a job that came now and went behind all of its tier; None: nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWaiting:
    """Why a queued job waits, and for how long."""

    reason: waiting.Reason
    detail: str
    position: int | None
    """1 is next: exact within its tenant, estimated across tenants and tiers; None if it is in no queue."""
    expected_start: datetime | None
    """As far as ends and starts of late tell; None: nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """One worker as it last reported itself."""

    name: str
    model: str
    engine: str
    device: str
    serve: tuple[str, ...]
    host: str
    pid: int
    state: WorkerState
    state_detail: str
    slots: int
    in_flight: int
    kv_capacity_tokens: int
    kv_used_tokens: int
    started_at: datetime
    ready_at: datetime | None
    silent_seconds: float
    """Since it was last heard."""
    stale: bool
    """Not heard for longer than a worker may be silent: what the row says is old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatesRow:
    """How fast a model's engines are for one sequence, in tokens per second."""

    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    """What estimates go by."""
    measured_calls: int
    """From about so many of the last calls; 0: they are the configured ones, until enough calls have been seen."""
    configured_prefill_tokens_per_second: float
    configured_decode_tokens_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """All queues and workers in a few numbers."""

    jobs: int
    """Backlog of all queues."""
    on_hold: int
    """Of it."""
    tokens: int
    backlog_seconds: float
    """Of the queue that waits longest."""
    expected_wait_seconds: float | None
    """The longest of the queues that are expected to be worked off; None: nobody can tell of any."""
    leases: int
    capacity: int | None
    """Of the queue with the least of it; None: no queue has a bound."""
    claims_per_second: float
    objective: Objective | None
    """How all of them keep it; None: they have no common one."""
    slots: int
    """Of the workers that may claim."""
    ready_workers: int
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCounts:
    """Unfinished jobs of one tenant or key."""

    queued: int
    unfinished: int
    """Waiting or running."""
