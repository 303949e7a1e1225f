"""The closed sets of the domain: what a job, an event and a worker can be. Pure; see `docs/lifecycle.md`.

A test holds the table in `docs/lifecycle.md` against `TRANSITIONS`.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class JobStatus(StrEnum):
    """Where a job is. Only `inference.lifecycle` moves it."""

    QUEUED = "queued"
    """Accepted and waiting. Entered at submission, from `spilled` by the feeder, or from `running` by a release or
    a rescue."""
    SPILLED = "spilled"
    """Accepted, and kept out of its full queue until the feeder has room for it there."""
    RUNNING = "running"
    """Held by one claim. Stuck only if its lease ran out: the reaper or the reconciler rescues it."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Not started by its start deadline."""


TRANSITIONS: Final[Mapping[JobStatus, frozenset[JobStatus]]] = MappingProxyType(
    {
        JobStatus.QUEUED: frozenset({JobStatus.RUNNING, JobStatus.CANCELLED, JobStatus.EXPIRED, JobStatus.FAILED}),
        JobStatus.SPILLED: frozenset({JobStatus.QUEUED, JobStatus.CANCELLED, JobStatus.EXPIRED}),
        JobStatus.RUNNING: frozenset(
            {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.QUEUED}
        ),
        JobStatus.SUCCEEDED: frozenset(),
        JobStatus.FAILED: frozenset(),
        JobStatus.CANCELLED: frozenset(),
        JobStatus.EXPIRED: frozenset(),
    }
)

TERMINAL: Final = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.EXPIRED})

WAITING: Final = frozenset({JobStatus.QUEUED, JobStatus.SPILLED})
"""Not started: the clock of their start deadline runs."""

RETRYABLE: Final = TERMINAL - {JobStatus.SUCCEEDED}
"""What an admin may queue again by hand. Not a transition: the same job begins anew, its history kept."""


class OnFull(StrEnum):
    """What a tier's full queues do with more."""

    REJECT = "reject"
    """429 at once."""
    HOLD = "hold"
    """A synchronous call waits all the same, and gets 429 if it has not started after a while; others at once."""
    SPILL = "spill"
    """Others are kept as rows until there is room; a synchronous call is held."""


class JobEventKind(StrEnum):
    """One row of a job's history."""

    QUEUED = "queued"
    SPILLED = "spilled"
    RUNNING = "running"
    RELEASED = "released"
    """Given back unfinished by its worker (drain, engine crash): costs no attempt."""
    RESCUED = "rescued"
    """Its lease ran out (worker died): the attempt counts."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class FailureReason(StrEnum):
    """Why a job is `failed`; the `error_code` of its row."""

    BAD_REQUEST = "bad_request"
    """The engine refused the request: the caller's fault, never retried."""
    ENGINE_ERROR = "engine_error"
    """The engine answered with an error of its own."""
    ENGINE_CRASH = "engine_crash"
    """In flight at three engine crashes."""
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    """Its worker died under it `max_attempts` times."""
    RUN_TIMEOUT = "run_timeout"
    BODY_MISSING = "body_missing"
    """Its request is not in the storage any more, or cannot be read there."""


HOLD_ENDED: Final = "queue_full"
"""The `error_code` of a job that is `expired` since it did not start on hold."""


class ReleaseReason(StrEnum):
    """Why a running job went back to its queue."""

    DRAIN = "drain"
    ENGINE_CRASH = "engine_crash"
    LEASE_EXPIRED = "lease_expired"
    ENGINE_UNREACHABLE = "engine_unreachable"
    RUNS_ALONE = "runs_alone"
    """Its row says that it must, and its entry in the queue did not."""


class WorkerState(StrEnum):
    """Where a worker is; only a `ready` one claims."""

    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    PAUSED = "paused"
    """It could claim, and an operator said that it must not. Its engine runs on."""
    DRAINING = "draining"
    """It finishes what it runs and claims no more: an operator said so, or it stops."""
    STOPPED = "stopped"
    FAILED = "failed"


class Endpoint(StrEnum):
    """What a job asks of the engine; the value is the path below `/v1/`."""

    CHAT = "chat/completions"
    COMPLETIONS = "completions"


class EngineKind(StrEnum):
    """The engines that a worker can feed."""

    VLLM = "vllm"
    """vLLM, as a process of the worker's own."""
    SIM = "sim"
    """The simulated engine, likewise."""
    EXTERNAL = "external"
    """Any server of OpenAI's protocol at a URL."""
