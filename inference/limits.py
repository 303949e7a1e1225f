"""Limits as frozen values: what an admin sets, parsed once, handed to pure decisions. No Django import here."""

from dataclasses import dataclass, field
from typing import Final

from inference.charges import NO_PRICES, PriceList
from inference.states import OnFull

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
"""Largest request body accepted by the API (fails closed: 413)."""

MAX_JOBS_PER_CALL: Final = 1_000
"""Most jobs in one bulk submission."""


@dataclass(frozen=True, slots=True)
class TierLimits:
    """One tier as submission and the claim see it."""

    name: str
    weight: float
    """Share of service against the other tiers (stride scheduling)."""
    engine_priority: int
    """vLLM's `priority`: lower is preempted last."""
    start_deadline_seconds: float
    """A job not started this long after it was queued expires."""
    sync_start_deadline_seconds: float
    """The same for a synchronous call, whose client waits."""
    run_timeout_seconds: float
    """A job running longer fails with `run_timeout`."""
    service_tiers: tuple[str, ...]
    """OpenAI's `service_tier` values that pick this tier."""
    max_wait_seconds: float | None = None
    """Longest expected wait with which a job is taken (fails closed: 429); None is unbounded."""
    max_queued_jobs: int = 10_000
    """Most that may wait in each of its queues that has no cap of its own (fails closed: 429)."""
    max_queued_tokens: int | None = None
    """The same in tokens, of prompts and expected output; None is unbounded."""
    max_queued_bytes: int | None = None
    """The same in bytes of the requests; None is unbounded."""
    on_full: OnFull = OnFull.REJECT
    """What its full queues do."""
    hold_seconds: float = 20.0
    """A call on hold that has not started after so long is refused."""
    max_held_jobs: int = 2_000
    """Most calls on hold in each of its queues (fails closed: 429)."""
    max_attempts: int = 3
    """A job whose worker died this often fails."""
    uses_reserve: bool = False
    """May take what each worker reserves."""
    max_share: float = 1.0
    """Of a worker's room while tiers with a share of 1 have work, or had lately (fails closed: jobs wait)."""
    max_in_flight: int | None = None
    """Most running jobs per model over all workers (fails closed: they wait); None is unbounded."""
    gather_jobs: int = 0
    """A busy worker leaves fewer waiting jobs than this alone for `gather_seconds`; 0 turns it off."""
    gather_seconds: float = 0.0
    target_wait_seconds: float | None = None
    """A job that starts within it starts in time; None: one that starts before its deadline does."""
    objective_share: float | None = None
    """Of the jobs that should start in time: told and alerted on, and decides nothing. None: no objective."""


@dataclass(frozen=True, slots=True)
class LengthLimits:
    """One length class."""

    name: str
    max_prompt_tokens: int | None
    """Longest prompt in tokens, inclusive; None is unbounded."""
    max_in_flight: int | None = None
    """Most running jobs per model over all workers (fails closed: they wait); None is unbounded."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """One served model as submission and its workers see it."""

    name: str
    source: str
    """Local path or hub name handed to the engine; the tokenizer is read from it too."""
    max_model_len: int
    """Longest prompt plus output, in tokens."""
    max_num_seqs: int
    max_num_batched_tokens: int | None
    dtype: str
    enforce_eager: bool
    tensor_parallel_size: int
    cpu_kv_cache_gib: float
    """Size of the KV cache on the CPU engine; a GPU engine sizes its own."""
    engine_args: tuple[str, ...]
    """Further arguments, passed to vLLM as they are."""
    kv_margin_tokens: int
    """Room kept free per job above its expected tokens."""
    default_output_tokens: int
    """Output expected while nothing is known of what the key's jobs bring."""
    prefill_tokens_per_second: float
    decode_tokens_per_second: float
    """Of one sequence. Estimates go by both until enough calls were measured."""
    warmup_prompt: str
    warmup_answer: str
    """The greedy answer to the warm-up prompt must contain this; empty accepts any answer."""
    max_in_flight: int | None = None
    """Most running jobs over all workers (fails closed: they wait); None is unbounded."""
    scales_from_zero: bool = True
    """Takes jobs while no worker of it lives; if not, they are refused (fails closed: 503)."""
    engine_start_seconds: float = 120.0
    """While none of its engines is ready, jobs may wait so much longer."""
    max_queued_bytes: int | None = None
    """Bytes of requests that may wait in all its queues (fails closed: 429); None: as its engines hold."""
    emergency_watermark: float = 0.9
    """Share of those bytes from which the least urgent tier is refused; the most urgent at all of them."""
    reserve_share: float = 0.05
    """Of a worker's slots and KV tokens, for tiers that use the reserve (fails closed: others wait)."""
    stall_seconds: float = 60.0
    """An engine of ours that makes no progress for so long at what it has to do is killed and started again."""
    estimates_tokens: bool = False
    """Its files are not here, so prompt tokens are guessed from bytes (see `inference.tokens`)."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """What an admin set for one queue alone."""

    max_jobs: int | None = None
    """Most waiting jobs (fails closed: 429), whatever wait is expected; None is the tier's default cap."""
    max_in_flight: int | None = None
    """Most running jobs over all workers (fails closed: they wait); None is unbounded."""
    is_paused: bool = False
    """Nothing is claimed; jobs are still admitted."""
    is_draining: bool = False
    """Nothing is admitted; what waits is worked off."""
    halted_by: str = ""
    """Who said the last of these, or their end."""
    resumed_at: float | None = None
    """When the last pause ended, by `inference.clock`, in seconds since the epoch; None: there was none."""
    max_tokens: int | None = None
    """Most waiting tokens, of prompts and expected output (fails closed: 429); None is the tier's default."""
    max_bytes: int | None = None
    """Most waiting bytes of requests (fails closed: 429); None is the tier's default."""


NO_QUEUE_LIMITS: Final = QueueLimits()


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What an admin set for one API key (fails closed: 429); None is unbounded. A window slides."""

    requests_per_second: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Of prompts and expected output, put right by what was used."""


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What an admin set for one tenant, over all its keys and users (fails closed: 429); None is unbounded."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """As of a key."""
    max_queued_jobs: int | None = None
    """Most of its jobs that wait."""
    max_unfinished_jobs: int | None = None
    """Most of its jobs that wait or run."""


NO_KEY_LIMITS: Final = KeyLimits()
NO_TENANT_LIMITS: Final = TenantLimits()


@dataclass(frozen=True, slots=True)
class QueueCaps:
    """What may wait in one queue (fails closed: 429); None is unbounded."""

    jobs: int
    tokens: int | None = None
    bytes: int | None = None
    is_explicit: bool = False
    """An admin capped this very queue's jobs: no expected wait is asked for."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What an operator said of one worker; it outlives the worker's process and its row."""

    is_paused: bool = False
    """It claims nothing."""
    is_draining: bool = False
    """The same, for good: it is about to be stopped."""
    halted_by: str = ""
    """Who said the last of these, or their end."""
    resumed_at: float | None = None
    """Unix time since when it claims again after the last of these; None if there was none."""

    @property
    def is_halted(self) -> bool:
        """Whether it claims nothing."""
        return self.is_paused or self.is_draining

    def signed(self, detail: str) -> str:
        """Return a worker's own detail with who halted it, if somebody did: for operators alone."""
        by = [f"by {self.halted_by}"] if self.is_halted and self.halted_by else []
        return ", ".join([*by, *([detail] if detail else [])])


NO_WORKER_LIMITS: Final = WorkerLimits()


@dataclass(frozen=True, slots=True)
class Rival:
    """Another worker that was heard lately and takes work, or is about to."""

    model: str
    serve: tuple[str, ...]
    kv_tokens: int | None
    """Its engine's whole KV cache; None until that is known."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a tenant, or one key of it, may spend in a month of UTC (fails closed: 429)."""

    tenant: str
    key: str
    """Public part of the key; empty for the whole tenant."""
    nano: int
    """Billionths of the currency."""

    @property
    def owner(self) -> str:
        """Name whose it is, as Redis' keys have it."""
        return f"key={self.key}" if self.key else f"tenant={self.tenant}"


@dataclass(frozen=True, slots=True)
class Limits:
    """A consistent snapshot of all limit tables."""

    tiers: dict[str, TierLimits] = field(default_factory=dict)
    lengths: dict[str, LengthLimits] = field(default_factory=dict)
    models: dict[str, ModelLimits] = field(default_factory=dict)
    """Enabled models only."""
    queue_limits: dict[str, QueueLimits] = field(default_factory=dict)
    """By queue name; a queue without a row has none of its own."""
    worker_limits: dict[str, WorkerLimits] = field(default_factory=dict)
    """By worker name; the same."""
    rivals: tuple[Rival, ...] = ()
    """Of a worker, which adds them to what the tables say."""
    default_tier: str = "standard"
    default_model: str | None = None
    """None: no enabled one is."""
    prices: PriceList = NO_PRICES
    budgets: dict[str, Budget] = field(default_factory=dict)
    """By owner; one without has none."""

    def queue_caps(self, queue: str, tier: str) -> QueueCaps:
        """Return what may wait in `queue`, which is of `tier`: its own caps, else those of its tier."""
        own, default = self.of_queue(queue), self.tiers[tier]
        return QueueCaps(
            jobs=default.max_queued_jobs if own.max_jobs is None else own.max_jobs,
            tokens=default.max_queued_tokens if own.max_tokens is None else own.max_tokens,
            bytes=default.max_queued_bytes if own.max_bytes is None else own.max_bytes,
            is_explicit=own.max_jobs is not None,
        )

    def caps_in_flight(self, queue: str, tier: str, length: str) -> tuple[int | None, ...]:
        """Return how many of the queue's jobs may run, as itself, its tier and its length class are capped."""
        found = self.lengths.get(length)
        capped = self.of_queue(queue).max_in_flight, self.tiers[tier].max_in_flight
        return (*capped, found.max_in_flight if found else None)

    def of_queue(self, queue: str) -> QueueLimits:
        """Return what is set for `queue` alone."""
        return self.queue_limits.get(queue, NO_QUEUE_LIMITS)

    def of_worker(self, worker: str) -> WorkerLimits:
        """Return what is set for `worker` alone."""
        return self.worker_limits.get(worker, NO_WORKER_LIMITS)

    def budgets_of(self, tenant: str, owner: str) -> tuple[Budget, ...]:
        """Return the budgets that a job of the tenant must keep to, and of its key (`estimates.owner`)."""
        owners = dict.fromkeys((f"tenant={tenant}", owner))
        return tuple(self.budgets[owner] for owner in owners if owner in self.budgets)

    def queues(self) -> list[str]:
        """Every queue's name, in a stable order."""
        return [f"{m}.{t}.{length}" for m in self.models for t in self.tiers for length in self.lengths]
