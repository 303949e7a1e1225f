"""The tables. Fields, constraints and derived properties only; `lifecycle` is the one writer of a job's status."""

from typing import ClassVar

import uuid_utils.compat
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone
from rest_framework_api_key.models import AbstractAPIKey, BaseAPIKeyManager

from inference import routing
from inference.keys import OpenAIKeyGenerator
from inference.states import RETRYABLE, TERMINAL, Endpoint, EngineKind, JobEventKind, JobStatus, WorkerState

slug = RegexValidator(r"^[a-z0-9][a-z0-9_-]*$", "lower-case letters, digits, '-' and '_' only")
model_name = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "letters, digits, '.', '_', '/' and '-' only")


def list_of_strings(value: object) -> None:
    """Accept a JSON list of strings. Raises ValidationError."""
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise ValidationError('must be a list of strings, as ["a", "b"]')


def queue_name(value: str) -> None:
    """Accept `<model>.<tier>.<length>`. Raises ValidationError."""
    try:
        routing.parse(value)
    except ValueError:
        raise ValidationError(f"must be <model>.<tier>.<length>, not {value}") from None


def _choices(
    values: type[JobStatus | JobEventKind | WorkerState | Endpoint | EngineKind],
) -> list[tuple[str, str]]:
    return [(v.value, v.value) for v in values]


class Tier(models.Model):
    """A class of service: who goes first, and how long a job may wait."""

    name = models.CharField(max_length=32, primary_key=True, validators=[slug])
    position = models.PositiveSmallIntegerField(default=0, help_text="Order on pages.")
    weight = models.FloatField(
        default=100,
        validators=[MinValueValidator(0.001)],
        help_text="Share of service against other tiers.",
    )
    engine_priority = models.SmallIntegerField(default=0, help_text="vLLM's priority: lower goes first.")
    target_wait_seconds = models.FloatField(
        null=True, blank=True, help_text="Objective: jobs should start within this; empty for none."
    )
    start_deadline_seconds = models.FloatField(
        default=300, validators=[MinValueValidator(0.1)], help_text="A job not started by then is expired."
    )
    sync_start_deadline_seconds = models.FloatField(
        default=300,
        validators=[MinValueValidator(0.1)],
        help_text="The same for a synchronous call, whose client waits.",
    )
    run_timeout_seconds = models.FloatField(
        default=600, validators=[MinValueValidator(0.1)], help_text="A job that runs longer is failed."
    )
    max_attempts = models.PositiveSmallIntegerField(
        default=3,
        validators=[MinValueValidator(1)],
        help_text="A job whose worker died this often is failed; it can be retried by hand.",
    )
    uses_reserve = models.BooleanField(
        default=False, help_text="May take the slots and KV tokens that each worker reserves (see the model)."
    )
    max_share = models.FloatField(
        default=1,
        validators=[MinValueValidator(0.01), MaxValueValidator(1)],
        help_text="Of a worker's slots and KV tokens, while tiers with a share of 1 have work or had some in the "
        "last 10 s; at least one slot. 1: no such bound.",
    )
    max_in_flight = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
    )
    gather_jobs = models.PositiveIntegerField(
        default=0,
        help_text="A worker with other work waits until this many jobs wait here, or for the gather time; "
        "0: it never waits.",
    )
    gather_seconds = models.FloatField(
        default=0, validators=[MinValueValidator(0)], help_text="Longest such wait of the oldest job; 0: none."
    )
    service_tiers = models.JSONField(
        default=list,
        blank=True,
        validators=[list_of_strings],
        help_text='OpenAI service_tier values that pick this tier, as ["flex"]; each value picks one tier.',
    )

    class Meta:
        ordering: ClassVar = ["position", "name"]

    def __str__(self) -> str:
        return self.name


class LengthClass(models.Model):
    """A class of prompt lengths; each has queues of its own."""

    name = models.CharField(max_length=32, primary_key=True, validators=[slug])
    max_prompt_tokens = models.PositiveIntegerField(
        null=True, blank=True, unique=True, help_text="Longest prompt, inclusive; empty for no bound."
    )

    max_in_flight = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may run at once, per model, over all workers; empty for no bound.",
    )

    class Meta:
        ordering: ClassVar = [models.F("max_prompt_tokens").asc(nulls_last=True)]
        verbose_name_plural = "length classes"

    def __str__(self) -> str:
        return self.name


class ServedModel(models.Model):
    """A language model and the options of the engines that run it. Fields marked so need an engine restart."""

    name = models.CharField(max_length=96, primary_key=True, validators=[model_name])
    enabled = models.BooleanField(default=True, help_text="Requests for a disabled model are answered 404.")
    is_default = models.BooleanField(default=False, help_text="Served by a worker that names no model.")
    source = models.CharField(max_length=512, help_text="Local path or hub name. Needs an engine restart.")
    estimates_tokens = models.BooleanField(
        "estimate prompt tokens",
        default=False,
        help_text="For a model behind an external engine whose tokenizer is not on this machine: "
        "a token is taken to be four bytes of the prompt.",
    )
    max_model_len = models.PositiveIntegerField(default=8192, help_text="Tokens. Needs an engine restart.")
    max_num_seqs = models.PositiveIntegerField(default=32, help_text="Sequences. Needs an engine restart.")
    max_num_batched_tokens = models.PositiveIntegerField(
        null=True, blank=True, help_text="Tokens a step; empty for vLLM's default. Needs an engine restart."
    )
    dtype = models.CharField(max_length=16, default="auto", help_text="Needs an engine restart.")
    enforce_eager = models.BooleanField(default=False, help_text="Skip compilation. Needs an engine restart.")
    tensor_parallel_size = models.PositiveSmallIntegerField(default=1, help_text="Needs an engine restart.")
    cpu_kv_cache_gib = models.FloatField(default=1.0, help_text="CPU engine only. Needs an engine restart.")
    engine_args = models.JSONField(
        default=list,
        blank=True,
        validators=[list_of_strings],
        help_text='More vLLM arguments, as ["--seed", "0"]. Needs an engine restart.',
    )
    stall_seconds = models.FloatField(
        default=60,
        validators=[MinValueValidator(1)],
        help_text="An engine without progress for so long, and for four times what its largest step should take, "
        "while requests run, is restarted; not an external one. Needs an engine restart.",
    )
    kv_margin_tokens = models.PositiveIntegerField(default=16, help_text="KV room kept free per job.")
    default_output_tokens = models.PositiveIntegerField(
        default=256, help_text="Output expected of the first jobs of a key, until it is known what they bring."
    )
    prefill_tokens_per_second = models.FloatField(
        default=4000,
        validators=[MinValueValidator(0.001)],
        help_text="Of the prompt, for estimates until enough calls were measured.",
    )
    decode_tokens_per_second = models.FloatField(
        default=25,
        validators=[MinValueValidator(0.001)],
        help_text="Of one sequence's output, likewise.",
    )
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most jobs that may run at once over all workers; empty for no bound."
    )
    reserve_share = models.FloatField(
        default=0.05,
        validators=[MinValueValidator(0), MaxValueValidator(0.5)],
        help_text="Of each worker's slots and KV tokens, for tiers that use the reserve only; "
        "at least one slot from 8 slots up, none below.",
    )
    warmup_prompt = models.CharField(
        max_length=512,
        default="What is the capital of France?",
        help_text="Asked of a fresh engine before it gets work.",
    )
    warmup_answer = models.CharField(
        max_length=512, blank=True, default="", help_text="Must occur in the greedy answer; empty accepts any."
    )

    class Meta:
        ordering: ClassVar = ["name"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["is_default"],
                condition=models.Q(is_default=True),
                name="one_default_model",
                violation_error_message="Another model is the default one: untick it there first.",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Halted(models.Model):
    """What is known of the last pause, drain or resume. `inference.halts` writes it."""

    halted_at = models.DateTimeField("last halted or resumed", null=True, blank=True, editable=False)
    halted_by = models.CharField("by", max_length=200, blank=True, default="", editable=False)
    resumed_at = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="When the last pause ended: start deadlines count anew from then on.",
    )

    class Meta:
        abstract = True


class QueueLimit(Halted):
    """What an admin sets for one queue alone."""

    queue = models.CharField(
        max_length=192, primary_key=True, validators=[queue_name], help_text="<model>.<tier>.<length>"
    )
    max_jobs = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Most jobs that may wait; others get 429. 0 closes it; empty for the default.",
    )
    max_in_flight = models.PositiveIntegerField(
        null=True, blank=True, help_text="Most jobs that may run at once over all workers; empty for no bound."
    )
    is_paused = models.BooleanField("paused", default=False, help_text="Nothing is claimed; jobs are still taken.")
    is_draining = models.BooleanField(
        "draining", default=False, help_text="No more jobs are taken; those that wait are worked off."
    )

    def __str__(self) -> str:
        return self.queue

    @property
    def is_halted(self) -> bool:
        """Whether nothing is claimed from it."""
        return self.is_paused


class WorkerLimit(Halted):
    """What an operator said of one worker. Apart from `Worker`, which the worker writes, and which is pruned."""

    worker = models.CharField(max_length=128, primary_key=True)
    is_paused = models.BooleanField("paused", default=False, help_text="It claims nothing; its engine runs on.")
    is_draining = models.BooleanField(
        "draining", default=False, help_text="It finishes what it runs and claims no more."
    )

    def __str__(self) -> str:
        return self.worker

    @property
    def is_halted(self) -> bool:
        """Whether it claims nothing."""
        return self.is_paused or self.is_draining


class Tenant(models.Model):
    """Whose work it is: fairness between tenants is by weight."""

    name = models.CharField(max_length=64, primary_key=True, validators=[slug])
    weight = models.FloatField(
        default=1,
        validators=[MinValueValidator(0.001)],
        help_text="Share of service against other tenants.",
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """Which tenant a person who logs in works for: what they submit is its work, and they see its jobs only."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="membership")
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        related_name="memberships",
        help_text="Whose jobs the user submits and sees. Staff without one: the default tenant.",
    )

    def __str__(self) -> str:
        return f"{self.user} of {self.tenant_id}"


class ApiKeyManager(BaseAPIKeyManager):
    """Makes keys that look like OpenAI's."""

    key_generator = OpenAIKeyGenerator()


class ApiKey(AbstractAPIKey):
    """A tenant's key, stored hashed and shown once."""

    prefix = models.CharField(max_length=11, unique=True, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="api_keys")
    tiers = models.ManyToManyField(Tier, blank=True, help_text="Tiers the key may use; none chosen means all.")
    is_operator = models.BooleanField(
        "operator", default=False, help_text="The key may pause, resume and drain queues and workers."
    )

    objects: ClassVar[ApiKeyManager] = ApiKeyManager()  # type: ignore[assignment]

    class Meta(AbstractAPIKey.Meta):
        verbose_name = "API key"
        verbose_name_plural = "API keys"


class Job(models.Model):
    """One accepted inference request, for ever; the truth that the queue in Redis is an index of."""

    id = models.UUIDField(primary_key=True, default=uuid_utils.compat.uuid7, editable=False)
    # No index on the foreign keys: each would cost every insert, and only an admin's delete would read it.
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    api_key = models.ForeignKey(
        ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    model = models.ForeignKey(ServedModel, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, related_name="+", db_index=False)
    length = models.ForeignKey(LengthClass, on_delete=models.PROTECT, related_name="+", db_index=False)
    endpoint = models.CharField(max_length=32, choices=_choices(Endpoint))
    streamed = models.BooleanField(default=False)

    prompt_tokens = models.PositiveIntegerField()
    expected_tokens = models.PositiveIntegerField(help_text="Output tokens reserved for in the KV cache.")
    estimate_seconds = models.FloatField(help_text="Expected service time; what fairness charges.")

    status = models.CharField(max_length=12, choices=_choices(JobStatus), default=JobStatus.QUEUED)
    claim_id = models.UUIDField(null=True, blank=True, help_text="The claim that holds a running job.")
    worker = models.CharField(max_length=128, blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    engine_crashes = models.PositiveSmallIntegerField(default=0)

    created_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(
        default=timezone.now, help_text="Since when the start deadline's clock runs: created, or last given back."
    )
    start_deadline_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    first_token_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    output_tokens = models.PositiveIntegerField(null=True, blank=True)
    finish_reason = models.CharField(max_length=32, blank=True, default="")
    error_code = models.CharField(max_length=32, blank=True, default="")
    error_message = models.TextField(blank=True, default="")

    # Last, since SQLite walks through a long value to reach the columns behind it.
    request = models.TextField(help_text="The body for the engine, as JSON.")
    result = models.TextField(blank=True, default="", help_text="The engine's answer, as JSON.")

    class Meta:
        ordering: ClassVar = ["-id"]
        indexes: ClassVar = [
            # A client's list of its jobs, newest first.
            models.Index(fields=["tenant", "-id"], name="job_by_tenant"),
            # The reconciler walks over what waits and what runs; few rows whatever the history. Two indexes, since
            # SQLite uses a partial one only for the very condition that it has.
            models.Index(fields=["id"], name="job_queued", condition=models.Q(status=JobStatus.QUEUED)),
            models.Index(fields=["id"], name="job_running", condition=models.Q(status=JobStatus.RUNNING)),
            # Expiry reads the few whose deadline has passed, however many wait.
            models.Index(
                fields=["start_deadline_at"],
                name="job_start_deadline",
                condition=models.Q(status=JobStatus.QUEUED),
            ),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="job_running_has_claim",
                condition=~models.Q(status=JobStatus.RUNNING) | models.Q(claim_id__isnull=False),
            ),
            models.CheckConstraint(
                name="job_status_known", condition=models.Q(status__in=[s.value for s in JobStatus])
            ),
            models.CheckConstraint(
                name="job_finished_has_time",
                condition=~models.Q(status__in=[s.value for s in sorted(TERMINAL)])
                | models.Q(finished_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def queue(self) -> str:
        """Name of the job's queue."""
        return f"{self.model_id}.{self.tier_id}.{self.length_id}"

    @property
    def is_finished(self) -> bool:
        """Whether the job reached a terminal status."""
        return self.status in TERMINAL

    @property
    def is_retryable(self) -> bool:
        """Whether it ended in a way that a hand may queue it again after."""
        return self.status in RETRYABLE

    @property
    def queue_time_seconds(self) -> float | None:
        """Seconds between creation and the start of the last attempt; None before any."""
        return (self.started_at - self.created_at).total_seconds() if self.started_at else None


class JobEvent(models.Model):
    """One step of a job's history, written in the same transaction as the step."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=12, choices=_choices(JobEventKind))
    claim_id = models.UUIDField(null=True, blank=True)
    worker = models.CharField(max_length=128, blank=True, default="")
    attempt = models.PositiveSmallIntegerField(default=0)
    detail = models.CharField(max_length=255, blank=True, default="", help_text="A reason, never a prompt.")

    class Meta:
        ordering: ClassVar = ["id"]

    def __str__(self) -> str:
        return f"{self.job_id} {self.kind}"


class Worker(models.Model):
    """A worker process as it last reported itself; the registry."""

    name = models.CharField(max_length=128, primary_key=True)
    model = models.ForeignKey(ServedModel, on_delete=models.CASCADE, related_name="workers")
    engine = models.CharField(max_length=16, choices=_choices(EngineKind))
    device = models.CharField(max_length=64)
    serve = models.JSONField(default=list, help_text="Queue patterns it serves.")
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    state = models.CharField(max_length=12, choices=_choices(WorkerState), default=WorkerState.STARTING)
    state_detail = models.CharField(max_length=255, blank=True, default="")
    slots = models.PositiveIntegerField(default=0)
    in_flight = models.PositiveIntegerField(default=0)
    kv_capacity_tokens = models.PositiveIntegerField(default=0)
    kv_used_tokens = models.PositiveIntegerField(default=0)
    started_at = models.DateTimeField(default=timezone.now)
    ready_at = models.DateTimeField(null=True, blank=True, help_text="Since when it is ready; empty if it is not.")
    heartbeat_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name
